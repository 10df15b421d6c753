//go:build linux

package httpapi_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/exp/golden"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// scene is a session S of the user, whose root P has started M, which is in it, and the root I of a session N in it.
type scene struct {
	*ordered
	n, p, m, i uint32
	s, in      string // ids
	plan       string // token
	spent      bool   // something has been done to it
	refs       map[uint32]api.Ref
	ids        map[string]bool // of all sessions so far
}

func (x *scene) fresh() {
	x.n, x.spent, x.plan, x.refs = x.n+1, false, "", make(map[uint32]api.Ref)
	x.p, x.m, x.i = 100*x.n+10_000, 100*x.n+10_001, 100*x.n+10_002
	x.K.Advance(time.Minute) // as the number of refusals in a minute is bounded
	x.s = x.Session("user", x.p, api.NewSession{Name: fmt.Sprint("ci-", x.n), GraceMS: daemontest.MS(60_000), MaxRSSBytes: 1 << 30}).ID
	x.Fork(x.p, x.m, 1000, "lngtest-member")
	x.Fork(x.p, x.i, 1000, "lngtest-member")
	for _, pid := range []uint32{x.p, x.m, x.i} {
		x.K.Edit(pid, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
		x.refs[pid] = x.RefOf(pid)
	}
	x.in = daemontest.Into[api.Session](x.Do(fmt.Sprint(x.p), "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: int(x.i)}}), 201).ID
	x.ids[x.s], x.ids[x.in] = true, true
}

var told = regexp.MustCompile(`\\?"(?:code|exit|message|hint|state|refused_by|refused|sessions|spared)\\?":(?:"(?:\\.|[^"\\])*"|\\"[^"]*"|\[.*?\]|[0-9]+)`)

func (x *scene) post(who, path string, body any) string {
	a := x.Do(who, "POST", path, body)
	x.spent = x.spent || a.Status < 300 && !strings.HasSuffix(path, "/plan")
	all := slices.Compact(told.FindAllString(strings.ReplaceAll(string(a.Body), `"condemned"`, `"ended"`), -1)) // soon
	return fmt.Sprint(a.Status, " ", strings.Join(all, " "))
}

func (x *scene) makePlan() {
	x.plan = daemontest.Into[api.Plan](x.Do("root", "POST", "/v1/sessions/"+x.s+"/plan", nil), 200).Token
}

// guard puts the shell of all callers, which is an ancestor of each and of the daemon, into a session.
func (x *scene) guard(session string) (undo func()) {
	id := x.ID(session)
	x.Under(daemontest.Shell)
	x.K.Edit(daemontest.Shell, func(p *kerneltest.Proc) { p.Session = id })
	return func() { x.K.Edit(daemontest.Shell, func(p *kerneltest.Proc) { p.Session = 0 }) }
}

// states are what S is in. undo is for what all cells share. deeds are those that the state concerns, empty: all.
var states = []struct {
	name, deeds string
	set         func(*scene) (undo func())
}{
	{"active", "", func(*scene) func() { return nil }},
	{"paused", "", func(x *scene) func() { x.post("root", "/v1/sessions/"+x.s+"/pause", nil); return nil }},
	{"ending", "", func(x *scene) func() { x.post("root", "/v1/sessions/"+x.s+"/end", nil); return nil }},
	{"ended", "", func(x *scene) func() { x.End("root", x.s); x.Receipt(x.in); return nil }},
	{"kept", "", func(x *scene) func() {
		x.s = daemontest.Into[api.Session](x.Keep("root", x.m), 201).ID
		x.p, x.m = x.m, x.p
		return nil
	}},
	{"guarded", "", func(x *scene) func() { return x.guard(x.s) }},
	{"guarded inside", "", func(x *scene) func() { return x.guard(x.in) }},
	{"protected", "", func(x *scene) func() {
		x.K.Edit(x.m, func(p *kerneltest.Proc) { p.Flags |= tracer.FlagProtected })
		return nil
	}},
	{"unknown", "", func(x *scene) func() {
		x.K.Fail("Snapshot", errors.New("scripted"))
		return func() { x.K.Fail("Snapshot", nil) }
	}},
	{"planned", "end|end now|end branch", func(x *scene) func() { x.makePlan(); return nil }},
	{"planned before", "end|end now|end branch", func(x *scene) func() {
		x.makePlan()
		x.Fork(x.p, x.i+1, 1000, "lngtest-new")
		return nil
	}},
	{"not remembered", "end|halt|drain", func(x *scene) func() {
		require.NoError(x, os.Mkdir(x.Instance.Commands+".next", 0o700))
		return func() { os.Remove(x.Instance.Commands + ".next") }
	}},
}

// deeds are what callers do to S, M and N.
var deeds = []struct {
	name, path string
	body       func(x *scene) any
	signed     func(x *scene, c *api.Command)
}{
	{"end", "/v1/sessions/S/end", func(x *scene) any { return api.EndRequest{PlanToken: x.plan} },
		func(x *scene, c *api.Command) { c.Sessions, c.Plan = []string{x.s}, x.plan }},
	{"end now", "/v1/sessions/S/end", func(x *scene) any { return api.EndRequest{Now: true, PlanToken: x.plan} },
		func(x *scene, c *api.Command) {
			c.Sessions, c.Plan, c.GraceMS = []string{x.s}, x.plan, daemontest.MS(0)
		}},
	{"end inside", "/v1/sessions/N/end", nil, nil},
	{"plan", "/v1/sessions/S/plan", nil, nil},
	{"pause", "/v1/sessions/S/pause", nil, nil},
	{"resume", "/v1/sessions/S/resume", nil, nil},
	{"end branch", "/v1/processes/M/end", func(x *scene) any { return api.EndRequest{PlanToken: x.plan} }, nil},
	{"end root", "/v1/processes/P/end", nil, nil},
	{"plan branch", "/v1/processes/M/plan", nil, nil},
	{"kill", "/v1/processes/M/kill", func(*scene) any { return kill("TERM") }, nil},
	{"keep", "/v1/keep", func(x *scene) any {
		return api.KeepRequest{Refs: []api.Ref{x.refs[x.m]}, Reason: "r", Until: time.Now().Add(time.Hour)}
	}, nil},
	{"halt", "/v1/halt", func(x *scene) any { return api.HaltRequest{Mode: api.ModeHalt, Reason: "r", Sessions: []string{x.s}} },
		func(x *scene, c *api.Command) { c.Verb, c.Mode, c.Sessions = api.VerbHalt, api.ModeHalt, []string{x.s} }},
	{"drain", "/v1/halt", func(*scene) any { return api.HaltRequest{Mode: api.ModeDrain, Reason: "r"} },
		func(x *scene, c *api.Command) { c.Verb, c.Mode = api.VerbHalt, api.ModeDrain }},
}

// TestActs: who may do what to whom, in which state, what they are told and what is sent: every act by every caller is as
// testdata/TestActs.golden has it, which leaves out what is as it is for an active session. ann may end and halt everything, ben may
// end what the user has.
func TestActs(t *testing.T) {
	var all []string
	active := make(map[string]bool)
	for _, state := range states {
		x := &scene{ordered: newOrdered(t), ids: make(map[string]bool)}
		var lines []string
		for at, deed := range deeds {
			if state.deeds != "" && !slices.Contains(strings.Split(state.deeds, "|"), deed.name) {
				continue
			}
			x.spent = true
			var results []string
			by := make(map[string][]string)
			for _, who := range []string{"root", "user", "member", "inner", "else", "reader", "ann", "ben", "rule"} {
				if who == "rule" && at > 0 || (who == "ann" || who == "ben") && deed.signed == nil {
					continue
				}
				if x.spent {
					x.fresh()
				}
				undo := state.set(x)
				result := x.does(who, at)
				if by[result] = append(by[result], who); len(by[result]) == 1 {
					results = append(results, result)
				}
				if undo != nil {
					undo()
				}
				x.spent = x.spent || !slices.Contains([]string{"active", "guarded", "unknown", "not remembered"}, state.name)
			}
			for _, result := range results {
				lines = append(lines, deed.name+" by "+strings.Join(by[result], ", ")+": "+result)
			}
		}
		x.Halt()
		all = append(all, "# "+state.name)
		for _, line := range append(lines, x.recorded()...) {
			if !active[line] {
				all = append(all, line)
			}
			active[line] = active[line] || state.name == "active"
		}
	}
	golden.RequireEqual(t, strings.Join(all, "\n"))
}

// does carries out a deed, and returns what the caller reads, and what became of the scene.
func (x *scene) does(who string, at int) (text string) {
	who = map[string]string{"member": fmt.Sprint(x.p), "inner": fmt.Sprint(x.i)}[who] + strings.NewReplacer("member", "", "inner", "").Replace(who)
	deed, before := deeds[at], len(x.K.Signals())
	switch {
	case who == "rule":
		for _, rss := range []uint64{2 << 30, 0} {
			if x.K.Proc(x.p) != nil {
				x.K.Edit(x.p, func(p *kerneltest.Proc) { p.RSS = rss })
				_, _ = x.Service.Registry.Resync("test")
			}
		}
		x.spent = true
	case who == "ann" || who == "ben":
		text = x.post("else", "/v1/commands", x.command(who, func(c *api.Command) { deed.signed(x, c) }))
	default:
		var body any
		if deed.body != nil {
			body = deed.body(x)
		}
		text = x.post(who, strings.NewReplacer("S", x.s, "N", x.in, "M", x.refs[x.m].String(), "P", x.refs[x.p].String()).Replace(deed.path), body)
	}
	pids := []uint32{x.p, x.m, x.i, x.i + 1, daemontest.Shell}
	for _, s := range x.K.Signals()[before:] {
		if slices.Contains(pids, s.To.PID) {
			text += fmt.Sprintf("; %d %s", s.To.PID, map[bool]string{true: "KILL", false: "TERM"}[s.Kill])
		}
	}
	if h := x.K.Halted(); h.Mode != tracer.HaltNone {
		text += fmt.Sprintf("; %v: %s", h.Mode, h.Reason)
		require.NoError(x, x.K.SetHalt(tracer.Halt{}, nil))
		x.spent = true
	}
	for _, pid := range pids[:3] {
		if p := x.K.Proc(pid); p != nil && !p.Dead {
			text += fmt.Sprintf("; %d in %v", pid, p.Session) + map[bool]string{true: " stopped"}[p.Stopped]
		}
	}
	sessions, err := x.K.Sessions()
	require.NoError(x, err)
	for _, s := range sessions {
		x.ids[s.ID.String()] = true
	}
	text = regexp.MustCompile(`@[0-9]+`).ReplaceAllString(text, "")
	return x.vague(strings.NewReplacer(x.s, "S", x.in, "N", fmt.Sprint(x.p), "P", fmt.Sprint(x.m), "M", fmt.Sprint(x.i), "I", fmt.Sprint(x.i+1), "NEW").Replace(text))
}

// vague leaves out what differs from one run to the next.
func (x *scene) vague(text string) string {
	text = regexp.MustCompile(`[0-9]*@[0-9]+|pid [0-9]+|[0-9]{4}-[0-9T:.Z-]+|[0-9a-f]{32}`).ReplaceAllString(strings.ReplaceAll(text, x.Dir, "DIR"), "…")
	return regexp.MustCompile(`\b[0-9a-z]{6}\b`).ReplaceAllStringFunc(text, func(word string) string {
		return map[bool]string{true: "…", false: word}[x.ids[word]]
	})
}

// recorded are the lines of the audit log, without those that come when an end is over, or differ by that.
func (x *scene) recorded() (all []string) {
	what := regexp.MustCompile(`"verb":"(end|create|kill)","decision":"done"|"verb":.*?"uid":[0-9]+|"verb":.*?"reason":"[^"]*"`)
	for line := range strings.Lines(x.Audit()) {
		if text := x.vague(what.FindString(line)); !strings.HasSuffix(text, `"done"`) {
			all = append(all, text+regexp.MustCompile(`"operators":[^,]*`).FindString(line))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
