//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// A stormer is a session that forks on command: a hundred processes that exit at once,
// and a daemonised one that stays.
type stormer struct {
	*stage.Process
	m      *stage.Marker
	orders *os.File
	storms int
	forks  int // of all storms: two are the process that stays
}

const storming = `exec 9>%s 3<%s
echo ready >&9
while read n <&3; do
	i=0; while [ $i -lt $n ]; do /bin/true & i=$((i+1)); done; wait
	(setsid sleep 300 &)
	echo stormed >&9
done`

func newStormer(i *stage.Instance, name string, flags ...string) *stormer {
	i.T.Helper()
	s := &stormer{m: stage.NewMarker(i.T, i.Dir)}
	var path string
	path, s.orders = fifo(i, name+".orders")
	args := slices.Concat([]string{"run", "-q", "--name", name}, flags, []string{"--", "sh", "-c", fmt.Sprintf(storming, s.m.Path, path)})
	s.Process = i.Start(args, nil)
	s.m.Ready()
	return s
}

// fifo makes a FIFO on which neither side must wait.
func fifo(i *stage.Instance, name string) (string, *os.File) {
	i.T.Helper()
	path := filepath.Join(i.Dir, name)
	require.NoError(i.T, unix.Mkfifo(path, 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(i.T, err)
	i.T.Cleanup(func() { f.Close() })
	return path, f
}

func (s *stormer) storm(forks int) {
	s.T.Helper()
	_, err := fmt.Fprintln(s.orders, forks)
	require.NoError(s.T, err)
	s.storms, s.forks = s.storms+1, s.forks+forks+2
}

// calm waits for the end of every storm that was ordered.
func (s *stormer) calm() {
	s.T.Helper()
	if s.storms > 0 {
		s.m.Line("stormed", s.storms)
	}
}

// picture compares the daemon's tree with the live processes: those that hold the
// marker, by the kernel's own answer.
func (s *stormer) picture(i *stage.Instance, name string) error {
	var live []int
	for _, n := range stage.Query[api.Tree](i, "tree", name).Nodes {
		if n.State == "live" {
			live = append(live, n.PID)
		}
	}
	slices.Sort(live)
	want := s.m.Holders()
	slices.Sort(want)
	if !slices.Equal(live, want) {
		return fmt.Errorf("the tree has %v, alive are %v", live, want)
	}
	return nil
}

// The daemon is killed repeatedly, at any moment of a fork storm and of its own start, or stopped:
// each time the next one has the same session, with everything that was born meanwhile. When things
// have settled, the counts are the kernel's.
func TestDaemonKilledInStorms(t *testing.T) {
	kills := stage.FromEnv(t, "LNGTEST_KILLS", 10)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	moment := func(most time.Duration) <-chan time.Time {
		return time.After(time.Duration(random.Int64N(int64(most))))
	}
	const batch = 50 // daemonised processes of one session
	for done := 0; done < kills; {
		i := stage.New(t)
		daemon := i.Daemon()
		s := newStormer(i, "tenacious")
		id := i.Session("tenacious").ID
		for range min(batch, kills-done) {
			s.storm(50)
			<-moment(60 * time.Millisecond)
			if done%3 == 0 {
				require.Equal(t, daemon.Terminate().Code(), 0)
			}
			daemon.Stop()
			done++
			if done%5 == 0 { // once more during its start
				starting := i.Start([]string{"daemon", "--socket", i.Socket}, nil)
				<-moment(400 * time.Millisecond)
				starting.Stop()
				s.storm(20)
			}
			daemon = i.Daemon()
			s.calm()
			if all := stage.Query[api.Sessions](i, "ls").Items; len(all) != 1 || all[0].ID != id || all[0].State != "active" {
				t.Fatalf("kill %d: sessions %+v, want %s", done, all, id)
			}
			i.Agrees("tree", func() error { return s.picture(i, "tenacious") })
		}
		if x := i.Session("tenacious"); x.Forks != s.forks || x.Live != s.storms+1 {
			t.Errorf("%d forks and %d live, want %d and %d", x.Forks, x.Live, s.forks, s.storms+1)
		}
		i.End("--now", "tenacious")
		s.m.MustBeGone()
		s.Wait()
	}
	t.Logf("figure: %d kills of the daemon, no session and no member lost", kills)
}

// A session that ends while no daemon runs has ended when the next one starts: by the
// root's death, the owner's, or a deadline.
func TestEndsWithoutDaemon(t *testing.T) {
	i := stage.New(t)
	daemon := i.Daemon()
	level := i.Status().Level
	lifetime := require.Slowed(10 * time.Second) // longer than the storm
	for _, tt := range []struct {
		name  string
		flags []string
		kill  func(s *stormer, root int) int
		want  string
	}{
		{"root", []string{"--grace", "0s"}, func(_ *stormer, root int) int { return root }, "root_exit"},
		{"root-grace", []string{"--grace", "200ms"}, func(_ *stormer, root int) int { return root }, "root_exit"},
		{"owner", []string{"--grace", "0s"}, func(s *stormer, _ int) int { return s.Process.Process.Pid }, "owner_exit"},
		{"lifetime", []string{"--grace", "0s", "--max-lifetime", lifetime.String()}, nil, "max_lifetime"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStormer(i.In(t), tt.name, tt.flags...)
			s.storm(20)
			s.calm()
			x := i.Session(tt.name)
			daemon.Stop()
			if tt.kill != nil {
				// run would start a daemon to finish its work, so it must be stopped.
				require.NoError(t, unix.Kill(s.Process.Process.Pid, unix.SIGSTOP))
				require.NoError(t, unix.Kill(tt.kill(s, x.Root.PID), unix.SIGKILL))
			}
			if level == 4 && tt.flags[1] == "0s" && tt.kill != nil {
				s.m.Gone() // only the kernel can have done it
			}
			daemon = i.Daemon()
			s.m.Gone()
			unix.Kill(s.Process.Process.Pid, unix.SIGCONT)
			s.Wait()
			var r *api.Session
			i.In(t).Agrees("end", func() error {
				if r = i.Record(x.ID); r.State != "ended" {
					return fmt.Errorf("state %s", r.State)
				}
				return nil
			})
			require.Equal(t, r.EndReason, tt.want)
		})
	}
}
