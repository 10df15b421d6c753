package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// fleet has a daemon on each of these hosts; any other cannot be reached.
func fleet(t *testing.T, on map[string]*apitest.Client) *world {
	w := newWorld(t, nil)
	w.fakes = on
	w.dialHost = func(_ context.Context, host string) (api.Client, error) {
		if f := on[host]; f != nil {
			return f, nil
		}
		return nil, &api.UnreachableError{Socket: host, Err: fmt.Errorf("connection refused")}
	}
	return w
}

func twoHosts() map[string]*apitest.Client {
	second := newFake()
	second.Has.Sessions[0].ID, second.Has.Sessions[0].Name = "zz9z9z", "other"
	second.Has.Trees = map[string]*api.Tree{"zz9z9z": second.Has.Trees["k3x9q2"], "m8p4z1": second.Has.Trees["m8p4z1"]}
	return map[string]*apitest.Client{"web1": newFake(), "web2": second}
}

// Hosts that have nothing to list say so once, and without the names of columns.
func TestHostsEmpty(t *testing.T) {
	y := newTypist(t, 80, "", "", nil)
	w := fleet(t, map[string]*apitest.Client{"web1": {}, "web2": {}})
	w.Stdout, w.Stderr = y.tty, y.tty
	w.main(t.Context(), []string{"ls", "-H", "web1,web2"})
	require.Equal(t, y.saw(), `lineage: no session; start one with "lineage run -- CMD"; ended ones: "ls -a"`+"\n")
}

// TestHostsEndPlanned: with --all-or-none nothing is sent unless all hosts answer and agree.
func TestHostsEndPlanned(t *testing.T) {
	on := twoHosts()
	on["web2"].On.Plan = func(p *api.Plan) error { p.RefusedBy = "the daemon is in it"; return nil }
	code, out, _ := fleet(t, on).run("end", "m8p4z1", "--yes", "--all-or-none", "-H", "web1,web2")
	if code != api.ExitLeft || !strings.Contains(out, "the daemon is in it") || len(on["web1"].Got.Ended)+len(on["web2"].Got.Ended) > 0 {
		t.Errorf("exit %d, ended %q and %q\n%s", code, on["web1"].Got.Ended, on["web2"].Got.Ended, out)
	}
	// Without --all-or-none the other host's sessions end.
	code, _, _ = fleet(t, on).run("end", "m8p4z1", "--yes", "-H", "web1,web2")
	if code != api.ExitLeft || len(on["web1"].Got.Ended) != 1 || len(on["web2"].Got.Ended) != 0 {
		t.Errorf("exit %d, ended %q and %q", code, on["web1"].Got.Ended, on["web2"].Got.Ended)
	}
}

// TestHostsEndWaits: a host has the grace of its sessions besides the time to answer.
func TestHostsEndWaits(t *testing.T) {
	on := twoHosts()
	f := on["web1"]
	f.On.End = func(id string, _ api.EndRequest) (*api.Report, error) { return &api.Report{Session: id}, nil }
	asked := false
	f.On.Report = func(ctx context.Context, id string, _ time.Duration) (*api.Report, error) {
		asked = true
		if until, _ := ctx.Deadline(); time.Until(until) < 5*time.Minute {
			t.Errorf("given up after %v, with a grace of 9 minutes", time.Until(until))
		}
		return cleanReport(id), nil
	}
	if code, out, _ := fleet(t, on).run("end", "m8p4z1", "--yes", "--grace", "9m", "-H", "web1"); code != 0 || !asked {
		t.Errorf("exit %d, asked for the report: %v\n%s", code, asked, out)
	}
}

// TestHostsEndLeft: a host whose end fails, or leaves something, makes the whole command fail.
func TestHostsEndLeft(t *testing.T) {
	on := twoHosts()
	on["web1"].On.End = func(id string, _ api.EndRequest) (*api.Report, error) {
		r := cleanReport(id)
		r.Verdict = ""
		return r, nil
	}
	on["web1"].On.Report = func(_ context.Context, id string, _ time.Duration) (*api.Report, error) {
		r := cleanReport(id)
		r.Verdict = api.VerdictLeft
		return r, nil
	}
	on["web2"].On.End = func(string, api.EndRequest) (*api.Report, error) {
		return nil, api.NewError(api.CodeChanged, "the plan no longer holds", "")
	}
	code, out, _ := fleet(t, on).run("end", "m8p4z1", "--yes", "-H", "web2,web1")
	if code != api.ExitLeft || !strings.Contains(out, "web2  error: the plan no longer holds") || !strings.Contains(out, "web1  error: ") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

// TestHostsEndWaves: sessions end on one host, then on ten, then on the others, and where something is left
// the later hosts are spared. More hosts than --max-hosts are refused before anything is sent.
func TestHostsEndWaves(t *testing.T) {
	for left, want := range map[int]int{0: 1, 4: 11, 10: 11, 11: 14, -1: 14} { // hosts that end, by the one that leaves something
		on := map[string]*apitest.Client{}
		var names []string
		for n := range 14 {
			f := newFake()
			if n == left {
				f.On.End = func(id string, _ api.EndRequest) (*api.Report, error) {
					r := cleanReport(id)
					r.Verdict = api.VerdictLeft
					return r, nil
				}
			}
			names = append(names, fmt.Sprintf("h%02d", n))
			on[names[n]] = f
		}
		code, out, _ := fleet(t, on).run("end", "m8p4z1", "--yes", "-H", strings.Join(names, ","))
		ended := 0
		for n, name := range names {
			if len(on[name].Got.Ended) > 0 {
				ended++
			} else if said := fmt.Sprintf("%s   error: nothing was sent, because something is left on h%02d", name,
				left); !strings.Contains(out, said) && !strings.Contains(out, strings.Replace(said, "   ", "  ", 1)) {
				t.Errorf("of host %d is not said: %s\n%s", n, said, out)
			}
		}
		if ended != want || (code == api.ExitOK) != (left < 0) {
			t.Errorf("left on %d: %d hosts ended, want %d; exit %d\n%s", left, ended, want, code, out)
		}
		code, _, stderr := fleet(t, on).run("end", "m8p4z1", "--yes", "--max-hosts", "13", "-H", strings.Join(names, ","))
		if code != api.ExitUsage || !strings.Contains(stderr, "14 hosts are too many; raise --max-hosts, which is 13") {
			t.Errorf("exit %d: %s", code, stderr)
		}
	}
	on := twoHosts()
	code, out, _ := fleet(t, on).run("end", "build", "--yes", "--max-hosts", "1", "-H", "web1,web2,gone") // only one has it
	if code != api.ExitLeft || len(on["web1"].Got.Ended) != 1 {
		t.Errorf("exit %d\n%s", code, out)
	}
}
