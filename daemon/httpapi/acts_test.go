//go:build linux

package httpapi_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/audit"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

var updateActs = flag.Bool("update", false, "write testdata/acts.txt")

// scene is a session S of the user, whose root P has started M, which is in it, and the root I of a session N in it.
type scene struct {
	*ordered
	n       uint32
	p, m, i uint32
	s, in   string // ids
	plan    string // token
	spent   bool   // something has been done to it
	refs    map[uint32]api.Ref
	ids     map[string]bool // of all sessions so far
}

func (x *scene) path(pid uint32) string { return "/v1/processes/" + x.refs[pid].String() }

func (x *scene) fresh() {
	x.n, x.spent = x.n+1, false
	x.p, x.m, x.i = 100*x.n+10_000, 100*x.n+10_001, 100*x.n+10_002
	x.K.Advance(time.Minute) // as the number of refusals in a minute is bounded
	x.s = x.Session("user", x.p, api.NewSession{Name: fmt.Sprint("ci-", x.n), GraceMS: daemontest.MS(60_000), MaxRSSBytes: 1 << 30}).ID
	for _, pid := range []uint32{x.m, x.i} {
		x.Fork(x.p, pid, 1000, "lngtest-member")
	}
	x.refs = make(map[uint32]api.Ref)
	for _, pid := range []uint32{x.p, x.m, x.i} {
		x.K.Edit(pid, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
		x.refs[pid] = x.RefOf(pid)
	}
	x.in = daemontest.Into[api.Session](x.Do(fmt.Sprint(x.p), "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: int(x.i)}}), 201).ID
	x.plan, x.ids[x.s], x.ids[x.in] = "", true, true
}

func (x *scene) post(who, path string, body any) string {
	a := x.Do(who, "POST", path, body)
	var d struct {
		api.ErrorDocument
		Spared  string `json:"refused_by"`
		Items   []api.HaltedSession
		Receipt string
		State   api.SessionState
	}
	require.NoError(x, json.Unmarshal(a.Body, &d))
	x.spent = x.spent || a.Status < 300 && !strings.HasSuffix(path, "/plan")
	if e := d.Error; e != nil {
		return fmt.Sprintf("%d %s exit %d: %s", a.Status, e.Code, e.Exit, e.Message)
	}
	if d.State == api.StateCondemned {
		d.State = api.StateEnded // soon
	}
	text := fmt.Sprint(a.Status, " ", d.Kind, " ", d.State, " ", d.Spared)
	for _, i := range d.Items {
		text += fmt.Sprintf(" %s %q", i.ID, i.Refused)
	}
	if d.Receipt != "" {
		var r api.CommandReceipt
		require.NoError(x, json.Unmarshal([]byte(d.Receipt), &r))
		text += fmt.Sprintf(" %v %v kept %q", r.Sessions, r.Spared, r.Kept)
	}
	return text
}

// states are what S is in. undo is for what all cells share. deeds are those that the state concerns, empty: all.
var states = []struct {
	name, deeds string
	set         func(*scene) (undo func())
}{
	{"active", "", func(*scene) func() { return nil }},
	{"paused", "", func(x *scene) func() { x.post("root", "/v1/sessions/"+x.s+"/pause", nil); return nil }},
	{"ending", "", func(x *scene) func() { x.post("root", "/v1/sessions/"+x.s+"/end", nil); return nil }},
	{"ended", "", func(x *scene) func() { x.End("root", x.s); return nil }},
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
	{"planned", "end|end now|end branch", func(x *scene) func() {
		x.plan = daemontest.Into[api.Plan](x.Do("root", "POST", "/v1/sessions/"+x.s+"/plan", nil), 200).Token
		return nil
	}},
	{"planned before", "end|end now|end branch", func(x *scene) func() {
		x.plan = daemontest.Into[api.Plan](x.Do("root", "POST", "/v1/sessions/"+x.s+"/plan", nil), 200).Token
		x.Fork(x.p, x.i+1, 1000, "lngtest-new")
		return nil
	}},
	{"not remembered", "end|keep|halt|drain", func(x *scene) func() {
		dir := x.Instance.Commands + ".next"
		require.NoError(x, os.Mkdir(dir, 0o700))
		return func() { os.Remove(dir) }
	}},
}

// guard puts the shell of all callers, which is an ancestor of each and of the daemon, into a session.
func (x *scene) guard(session string) (undo func()) {
	id := x.ID(session)
	x.Under(daemontest.Shell)
	x.K.Edit(daemontest.Shell, func(p *kerneltest.Proc) { p.Session = id })
	return func() { x.K.Edit(daemontest.Shell, func(p *kerneltest.Proc) { p.Session = 0 }) }
}

// deeds are what callers do to S, I and M.
var deeds = []struct {
	name   string
	do     func(x *scene, who string) string
	signed func(x *scene, c *api.Command)
}{
	{"end", func(x *scene, who string) string {
		return x.post(who, "/v1/sessions/"+x.s+"/end", api.EndRequest{PlanToken: x.plan})
	}, func(x *scene, c *api.Command) { c.Verb, c.Sessions, c.Plan = api.VerbEnd, []string{x.s}, x.plan }},
	{"end now", func(x *scene, who string) string {
		return x.post(who, "/v1/sessions/"+x.s+"/end", api.EndRequest{Now: true, PlanToken: x.plan})
	}, func(x *scene, c *api.Command) {
		c.Verb, c.Sessions, c.Plan, c.GraceMS = api.VerbEnd, []string{x.s}, x.plan, daemontest.MS(0)
	}},
	{"end inside", func(x *scene, who string) string { return x.post(who, "/v1/sessions/"+x.in+"/end", nil) }, nil},
	{"plan", func(x *scene, who string) string { return x.post(who, "/v1/sessions/"+x.s+"/plan", nil) }, nil},
	{"pause", func(x *scene, who string) string { return x.post(who, "/v1/sessions/"+x.s+"/pause", nil) }, nil},
	{"resume", func(x *scene, who string) string { return x.post(who, "/v1/sessions/"+x.s+"/resume", nil) }, nil},
	{"end branch", func(x *scene, who string) string {
		return x.post(who, x.path(x.m)+"/end", api.EndRequest{PlanToken: x.plan})
	}, nil},
	{"end root", func(x *scene, who string) string { return x.post(who, x.path(x.p)+"/end", nil) }, nil},
	{"plan branch", func(x *scene, who string) string { return x.post(who, x.path(x.m)+"/plan", nil) }, nil},
	{"kill", func(x *scene, who string) string {
		return x.post(who, x.path(x.m)+"/kill", kill("TERM"))
	}, nil},
	{"keep", func(x *scene, who string) string {
		return x.post(who, "/v1/keep", api.KeepRequest{Refs: []api.Ref{x.refs[x.m]}, Reason: "r", Until: time.Now().Add(time.Hour)})
	}, func(x *scene, c *api.Command) {
		c.Verb, c.Processes, c.Until = api.VerbKeep, []api.Ref{x.refs[x.m]}, new(time.Now().Add(time.Hour))
	}},
	{"halt", func(x *scene, who string) string {
		return x.post(who, "/v1/halt", api.HaltRequest{Mode: api.ModeHalt, Reason: "r", Sessions: []string{x.s}})
	}, func(x *scene, c *api.Command) { c.Verb, c.Mode, c.Sessions = api.VerbHalt, api.ModeHalt, []string{x.s} }},
	{"drain", func(x *scene, who string) string {
		return x.post(who, "/v1/halt", api.HaltRequest{Mode: api.ModeDrain, Reason: "r"})
	}, func(x *scene, c *api.Command) { c.Verb, c.Mode = api.VerbHalt, api.ModeDrain }},
}

// TestActs: who may do what to whom, in which state, what they are told and what is sent: every act by every caller is as
// testdata/acts.txt has it, which leaves out what is as it is for an active session. ann may end and halt everything, ben may
// end and keep what the user has.
func TestActs(t *testing.T) {
	var got strings.Builder
	active := make(map[string]bool)
	for _, state := range states {
		x := &scene{ordered: newOrdered(t), ids: make(map[string]bool)}
		fmt.Fprintf(&got, "# %s\n", state.name)
		line := func(text string) {
			if !active[text] {
				got.WriteString(text + "\n")
			}
			active[text] = active[text] || state.name == "active"
		}
		for _, deed := range deeds {
			if state.deeds != "" && !slices.Contains(strings.Split(state.deeds, "|"), deed.name) {
				continue
			}
			x.spent = true
			var results []string
			by := make(map[string][]string)
			for _, who := range []string{"root", "user", "member", "inner", "else", "reader", "ann", "ben", "rule"} {
				if who == "rule" && deed.name != "end" || (who == "ann" || who == "ben") && deed.signed == nil {
					continue
				}
				if x.spent {
					x.fresh()
				}
				undo := state.set(x)
				x.met()
				before := len(x.K.Signals())
				result := x.does(who, deed.do, deed.signed)
				result = x.relative(result + x.effects(before))
				if by[result] = append(by[result], who); len(by[result]) == 1 {
					results = append(results, result)
				}
				if undo != nil {
					undo()
				}
				x.spent = x.spent || !slices.Contains([]string{"active", "guarded", "unknown", "not remembered"}, state.name)
			}
			for _, result := range results {
				line(deed.name + " by " + strings.Join(by[result], ", ") + ": " + result)
			}
		}
		x.Halt()
		for _, text := range x.recorded() {
			line(text)
		}
	}
	const path = "testdata/acts.txt"
	if *updateActs {
		require.NoError(t, os.WriteFile(path, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	is, was := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	for _, text := range is {
		if !slices.Contains(was, text) {
			t.Errorf("new: %s", text)
		}
	}
	require.Equal(t, len(is), len(was))
}

// met notes the sessions that there are.
func (x *scene) met() {
	all, err := x.K.Sessions()
	require.NoError(x, err)
	for _, s := range all {
		x.ids[s.ID.String()] = true
	}
}

func (x *scene) does(who string, do func(*scene, string) string, signed func(*scene, *api.Command)) string {
	switch who {
	case "member":
		return do(x, fmt.Sprint(x.p))
	case "inner":
		return do(x, fmt.Sprint(x.i))
	case "ann", "ben":
		return x.post("else", "/v1/commands", x.command(who, func(c *api.Command) { signed(x, c) }))
	case "rule":
		if x.spent = true; x.K.Proc(x.p) == nil {
			return "gone"
		}
		x.K.Edit(x.p, func(p *kerneltest.Proc) { p.RSS = 2 << 30 })
		_, err := x.Service.Registry.Resync("test")
		if x.K.Proc(x.p) != nil {
			x.K.Edit(x.p, func(p *kerneltest.Proc) { p.RSS = 0 })
		}
		return fmt.Sprint(err)
	}
	return do(x, who)
}

// effects are what a deed did to the scene. They undo a halt.
func (x *scene) effects(before int) (text string) {
	x.met()
	mine := []uint32{x.p, x.m, x.i, x.i + 1, daemontest.Shell}
	for _, s := range x.K.Signals()[before:] {
		if slices.Contains(mine, s.To.PID) {
			text += fmt.Sprintf("; %d %s", s.To.PID, map[bool]string{true: "KILL", false: "TERM"}[s.Kill])
		}
	}
	if h := x.K.Halted(); h.Mode != tracer.HaltNone {
		text += fmt.Sprintf("; %v: %s", h.Mode, h.Reason)
		require.NoError(x, x.K.SetHalt(tracer.Halt{}, nil))
		x.spent = true
	}
	for _, pid := range mine[:3] {
		switch p := x.K.Proc(pid); {
		case p == nil || p.Dead:
		case p.Stopped:
			text += fmt.Sprintf("; %d stopped", pid)
		case p.Session.String() != x.s && pid != x.i:
			text += fmt.Sprintf("; %d in %v", pid, p.Session)
		}
	}
	return text
}

// relative names processes and sessions as the scene does.
func (x *scene) relative(text string) string {
	text = regexp.MustCompile(`@[0-9]+`).ReplaceAllString(text, "")
	text = strings.NewReplacer(x.s, "S", x.in, "N", fmt.Sprint(x.p), "P", fmt.Sprint(x.m), "M", fmt.Sprint(x.i), "I", fmt.Sprint(x.i+1), "NEW").Replace(text)
	return x.vague(text)
}

// vague leaves out what differs from one run to the next.
func (x *scene) vague(text string) string {
	text = regexp.MustCompile(`[0-9]*@[0-9]+|pid [0-9]+|[0-9]{4}-[0-9T:.Z-]+|[0-9a-f]{32}`).ReplaceAllString(strings.ReplaceAll(text, x.Dir, "DIR"), "…")
	return regexp.MustCompile(`\b[0-9a-z]{6}\b`).ReplaceAllStringFunc(text, func(word string) string {
		if x.ids[word] {
			return "…"
		}
		return word
	})
}

// recorded are the lines of the audit log, without those that come when an end is over, or differ by that.
func (x *scene) recorded() (all []string) {
	for line := range strings.Lines(x.Audit()) {
		var r audit.Record
		require.NoError(x, json.Unmarshal([]byte(line), &r))
		if r.Decision == audit.Done && slices.Contains([]string{"end", "create", "kill"}, r.Verb) {
			continue
		}
		text := fmt.Sprintf("%s %s: %s", r.Verb, r.Decision, r.Reason)
		if r.Caller != nil {
			text = fmt.Sprintf("uid %d %v %s", r.Caller.UID, r.Caller.Operators, text)
		}
		if r.Target != nil {
			text += fmt.Sprintf(" (%s)", r.Target.Session)
		}
		all = append(all, x.vague("recorded: "+text))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
