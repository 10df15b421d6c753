//go:build linux

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/metrics"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

const gaugeRules = `mode: enforce
breaker: {ends_per_minute: 1000}
agents:
  - {name: lngtest-outer, enabled: true, match: {comm: lngtest-outer, exe: %[1]s}, on_root_exit: report}
  - {name: lngtest-inner, enabled: true, match: {comm: lngtest-inner, exe: %[1]s, parent: {comm: lngtest-outer}}, on_root_exit: report}
`

// TestGauges: at many moments of a load, each after one more agent, orphan, zombie, leftover, kept process or end,
// the gauges of the agent rules are what "lineage ls" shows, each process in one of them. The
// number of series does not grow with the sessions.
func TestGauges(t *testing.T) {
	const rules = 2
	moments := stage.FromEnv(t, "LNGTEST_MOMENTS", 40)
	i := stage.New(t)
	shell, err := filepath.EvalSymlinks("/bin/sh")
	require.NoError(t, err)
	for _, name := range []string{"lngtest-outer", "lngtest-inner"} {
		require.NoError(t, os.Symlink("/bin/sh", filepath.Join(i.Dir, name)))
	}
	i.Daemon("--policy", i.Policy(fmt.Sprintf(gaugeRules, shell)))
	l := &gaugeLoad{i: i, m: stage.NewMarker(t, i.Dir), rand: rand.New(rand.NewPCG(1, 2))}
	var sum, most metrics.Use
	series := 0
	for n := range moments {
		l.step()
		i.Agrees(fmt.Sprint("moment ", n), func() error {
			want, got := listed(i), gauges(i)
			maps.DeleteFunc(got, func(_ metrics.Rule, u metrics.Use) bool { return u == metrics.Use{} })
			if !maps.Equal(got, want) {
				return fmt.Errorf("gauges %+v, ls %+v", got, want)
			}
			sum = metrics.Use{}
			for _, u := range got {
				sum.Leftovers, sum.Orphans, sum.Zombies, sum.RSS = sum.Leftovers+u.Leftovers, sum.Orphans+u.Orphans, sum.Zombies+u.Zombies, sum.RSS+u.RSS
			}
			return nil
		})
		most.Leftovers, most.Orphans, most.Zombies, most.RSS = max(most.Leftovers, sum.Leftovers), max(most.Orphans, sum.Orphans), max(most.Zombies, sum.Zombies), max(most.RSS, sum.RSS)
		series = max(series, len(gauges(i)))
	}
	sessions := len(stage.Query[api.Sessions](i, "ls", "--all").Items)
	t.Logf("figure: equal at %d moments, of %d sessions; at most %+v in %d series of each gauge", moments, sessions, most, series)
	if most.Leftovers == 0 || most.Orphans == 0 || most.Zombies == 0 || most.RSS == 0 || series < rules+2 {
		t.Error("the load did not show everything")
	}
	if series > 2*(rules+1) || sessions < moments/5 {
		t.Errorf("%d series for %d rules and %d sessions", series, rules, sessions)
	}
	for _, a := range l.agents {
		a.Close()
	}
	l.m.Kill()
	l.m.Gone()
}

// listed is what "lineage ls" says of each rule. Most of its numbers include nested sessions.
func listed(i *stage.Instance) map[metrics.Rule]metrics.Use {
	i.T.Helper()
	items := stage.Query[api.Sessions](i, "ls").Items
	byID := make(map[string]*api.Session)
	for n := range items {
		byID[items[n].ID] = &items[n]
	}
	own := func(s *api.Session) (live, orphans int, rss uint64) {
		live, orphans, rss = s.Live, s.Orphans, s.RSSBytes
		for n := range items {
			if x := &items[n]; x.Parent == s.ID {
				live, orphans, rss = live-x.Live, orphans-x.Orphans, rss-x.RSSBytes
			}
		}
		return live, orphans, rss
	}
	all := make(map[metrics.Rule]metrics.Use)
	for n := range items {
		s, rule, left := &items[n], metrics.Rule{Name: metrics.NoRule}, false
		for x := s; x != nil; x = byID[x.Parent] {
			if x.Rule != "" && rule.Name == metrics.NoRule {
				rule.Name = x.Rule
			}
			rule.Kept, left = rule.Kept || x.Kept, left || x.Leftovers > 0
		}
		live, orphans, rss := own(s)
		u := all[rule]
		if left && s.State == api.StateActive {
			u.Leftovers += live
		}
		u.Orphans, u.Zombies, u.RSS = u.Orphans+orphans, u.Zombies+s.Zombies, u.RSS+rss
		if u != (metrics.Use{}) {
			all[rule] = u
		}
	}
	return all
}

var gaugeLine = regexp.MustCompile(`^lineage_(leftovers|orphans|zombies|rss_bytes)\{kept="(.*)",rule="(.*)"\} (.*)$`)

// gauges are the daemon's.
func gauges(i *stage.Instance) map[metrics.Rule]metrics.Use {
	i.T.Helper()
	r, err := i.Client().Get("http://lineage/metrics")
	require.NoError(i.T, err)
	defer r.Body.Close()
	all := make(map[metrics.Rule]metrics.Use)
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		m := gaugeLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(m[4], &v); err != nil {
			i.T.Fatal(lines.Text(), err)
		}
		rule := metrics.Rule{Name: m[3], Kept: m[2] == "true"}
		u := all[rule]
		switch m[1] {
		case "leftovers":
			u.Leftovers = int(v)
		case "orphans":
			u.Orphans = int(v)
		case "zombies":
			u.Zombies = int(v)
		default:
			u.RSS = uint64(v)
		}
		all[rule] = u
	}
	return all
}

// gaugeLoad changes one thing at each step. Its agents are shells that execute what they read.
type gaugeLoad struct {
	i      *stage.Instance
	m      *stage.Marker
	rand   *rand.Rand
	agents []io.WriteCloser
}

func (l *gaugeLoad) step() {
	t := l.i.T
	t.Helper()
	if len(l.agents) < 2 {
		l.start()
		return
	}
	n := l.rand.IntN(len(l.agents))
	tell := func(line string) {
		_, err := fmt.Fprintln(l.agents[n], line)
		require.NoError(t, err)
	}
	inner := filepath.Join(l.i.Dir, "lngtest-inner")
	switch l.rand.IntN(10) {
	case 0:
		l.start()
	case 1:
		tell("(sleep 300 &)") // an orphan
	case 2:
		tell(stage.Program("zombies") + " 1 &") // a shell might still reap its child
	case 3:
		tell(inner + " -c 'sleep 300 & sleep 300' &") // an agent in the agent's session
	case 4:
		tell(inner + " -c 'sleep 300 & true' &") // one that leaves a process
	case 5, 6:
		tell("sleep 300 & exit")
		l.agents = slices.Delete(l.agents, n, n+1)
	case 7:
		l.i.Run(l.m, []string{"--on-exit", "report"}, "daemonise").Wait()
	case 8:
		for _, o := range stage.Query[api.Orphans](l.i, "ls", "--left").Items {
			if o.Why == api.WhyLeftover && !o.Kept {
				l.i.Lineage("keep", fmt.Sprint(o.PID), "--reason", "a test wants it", "--until", "1h") // may be refused: it keeps no root
				return
			}
		}
	default:
		for _, s := range stage.Query[api.Sessions](l.i, "ls", "--state", "leftover").Items {
			l.i.Must("end", "--yes", "--now", s.ID)
			return
		}
	}
}

func (l *gaugeLoad) start() {
	cmd := shell(l.m, filepath.Join(l.i.Dir, "lngtest-outer"), "exec 9>"+l.m.Path+"; while read line; do eval \"$line\"; done")
	in, err := cmd.StdinPipe()
	require.NoError(l.i.T, err)
	stage.Start(l.i.T, cmd)
	l.agents = append(l.agents, in)
}
