//go:build linux

package attribution

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	engine = 100
	ending = "mode: enforce\ncontainers: [{name: execs, match: {container: web}, client: end}]\n"
)

// host has an engine with the container web, and whatever asks it is connected.
type host struct {
	*registrytest.Fixture
	*Attribution
	t       *testing.T
	file    string     // of the policy
	reading sync.Mutex // held: events that were read do not arrive
}

type slow struct {
	registry.Kernel
	reading *sync.Mutex
}

func (s *slow) Read(ev *tracer.Event) error {
	err := s.Kernel.Read(ev)
	s.reading.Lock()
	defer s.reading.Unlock()
	return err
}

func newHost(t *testing.T, policy string) *host {
	t.Helper()
	h := &host{t: t, file: filepath.Join(t.TempDir(), "policy.yaml")}
	h.Fixture = registrytest.New(t, func(o *registry.Options) { o.Kernel = &slow{o.Kernel, &h.reading} })
	h.write(policy)
	p, err := rules.Load(h.file, true, h.Clock)
	require.NoError(t, err)
	ground := h.Ground()
	ruled := rules.Options{Ground: ground, Rules: p, Enforcer: h.Enforcer, Audit: func(access.AuditRecord) {}}
	steward := rules.New(ruled)
	h.Attribution = New(Options{
		Options: ruled, Steward: steward, Self: tracer.Identity{PID: 1},
		Sockets: func(uint32) ([]Socket, error) { return []Socket{{engine, "/run/docker.sock"}}, nil },
	})
	for pid, exe := range map[uint32]string{1: "/sbin/init", engine: "/usr/bin/dockerd"} {
		process(t, string(h.Proc), pid, os.Geteuid(), exe, "pid:[1]")
	}
	has(t, string(h.Proc), engine, web().ID)
	h.K.Add(engine, 1, "dockerd")
	steward.CarryOut(p.Policy())
	h.R.Attach(h.Hooks(), steward.Hooks())
	h.Fixture.Run()
	h.Ingest()
	for _, job := range []func(context.Context){h.Attribution.Run, func(ctx context.Context) { h.Enforcer.Run(ctx, h.R.Judged) }} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); job(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
	}
	return h
}

func web() *lineage.Container {
	return &lineage.Container{ID: strings.Repeat("ab", 32), Name: "web", Runtime: "docker"}
}

func (h *host) write(policy string) {
	h.t.Helper()
	require.NoError(h.t, os.WriteFile(h.file, []byte("version: 1\n"+policy), 0o600))
}

// asks has the root of a new session ask for the command.
func (h *host) asks(pid uint32) tracer.Identity {
	h.t.Helper()
	h.Session(pid, 1000)
	h.K.Exec(pid, "/usr/bin/docker", "docker\x00exec\x00web\x00sleep\x009")
	h.K.AllRead()
	h.wantJoins()
	return h.K.Proc(pid).Identity
}

// runs begins the command, and judges it as the steward does: by the rule, or, with an empty spec, as the client's work. What
// happens between, found does.
func (h *host) runs(pid uint32, spec tracer.SessionSpec, found ...func()) tracer.SessionInfo {
	h.t.Helper()
	h.K.Add(pid, engine, "runc")
	h.K.Edit(pid, func(p *kerneltest.Proc) { p.UID = 1000 })
	id := h.K.PutIn(pid, "sleep")
	h.K.Exec(pid, "/bin/sleep", "sleep\x009")
	h.K.AllRead()
	info, err := h.K.Session(id)
	require.NoError(h.t, err)
	asker, _, ready := h.Find(info, web())
	if !ready {
		h.t.Errorf("%v is not ready", id)
	}
	for _, happen := range found {
		happen()
	}
	spec.KeepOnRootExit = true
	if spec.Rule == 0 {
		spec.For = asker
	}
	require.NoError(h.t, h.K.SetTerms(id, spec))
	h.Update(func(tx registry.Tx) { tx.Refresh(tx.Session(id)); tx.Changed(id) })
	h.o.Steward.Arm()
	return info
}

func (h *host) armed(want map[tracer.Identity]tracer.SessionID) {
	h.t.Helper()
	if got := h.K.Settings().Clients; !maps.Equal(got, want) {
		h.t.Errorf("the kernel has %v, want %v", got, want)
	}
}

var byRule = tracer.SessionSpec{Name: "execs", Rule: policy.ContainerRule}

// TestArm: the kernel knows a client whose end ends its command by the policy in force, if the client certainly asked for it.
func TestArm(t *testing.T) {
	asks := func(h *host) { h.asks(200) }
	for _, test := range []struct {
		name, policy string
		spec         tracer.SessionSpec
		happen       func(h *host)
		armed        bool
	}{
		{"a rule", ending, byRule, asks, true},
		{"no rule", "mode: enforce\n", tracer.SessionSpec{}, asks, true},
		{"observe", strings.Replace(ending, "enforce", "observe", 1), byRule, asks, false},
		{"report", strings.Replace(ending, "client: end", "client: report", 1), byRule, asks, false},
		{"brokers end nothing", "mode: enforce\nbrokers: {end: none}\n", tracer.SessionSpec{}, asks, false},
		{"ambiguous", ending, byRule, func(h *host) { h.asks(201); h.asks(200) }, false},
		{"ambiguous, and the rival has left", ending, byRule, func(h *host) {
			h.asks(201)
			h.asks(200)
			h.runs(299, byRule)
			h.K.Exit(201, 0)
			h.K.AllRead()
		}, false},
		{"another container", ending, byRule, func(h *host) {
			h.Session(200, 1000)
			h.K.Exec(200, "/usr/bin/docker", "docker\x00exec\x00db\x00sleep\x009")
			h.K.AllRead()
		}, false},
		{"an engine without the container", ending, byRule, func(h *host) {
			require.NoError(h.t, os.Remove(filepath.Join(string(h.Proc), "100/fd/7")))
			h.asks(200)
		}, false},
		{"another process has the engine's PID", ending, byRule, func(h *host) {
			h.asks(200)
			h.connect(func(*request) bool { return true })
			h.K.Edit(engine, func(p *kerneltest.Proc) { p.Start++ })
		}, false},
		{"another process has the client's PID", ending, byRule, func(h *host) {
			h.engines.sockets = func(pid uint32) ([]Socket, error) {
				h.K.Edit(pid, func(p *kerneltest.Proc) { p.Start++ })
				return []Socket{{engine, "/run/docker.sock"}}, nil
			}
			h.asks(200)
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t, test.policy)
			want := make(map[tracer.Identity]tracer.SessionID)
			test.happen(h)
			if id := h.runs(300, test.spec).ID; test.armed {
				want[h.K.Proc(200).Identity] = id
			}
			h.armed(want)
			h.Update(func(tx registry.Tx) {
				for x := range tx.Sessions() {
					for _, b := range tx.Document(x, access.Caller{}).Delegated {
						require.Equal(t, b.State == "ambiguous", strings.HasPrefix(test.name, "ambiguous"))
					}
				}
			})
		})
	}
}

// TestDisarm: the kernel forgets a client at once when the policy does not want it, or another command fits it too, and within
// a second when it has left its command. What it knew before the daemon started is forgotten, too.
func TestDisarm(t *testing.T) {
	h := newHost(t, ending)
	stale := map[tracer.Identity]tracer.SessionID{{PID: 9, Start: 9}: 9}
	require.NoError(t, h.K.SetClients(stale))
	h.o.Steward.Apply()
	h.armed(nil)

	client := h.asks(200)
	want := map[tracer.Identity]tracer.SessionID{client: h.runs(300, byRule).ID}
	h.armed(want)
	for _, other := range []string{strings.Replace(ending, "enforce", "observe", 1), strings.Replace(ending, "client: end", "client: report", 1)} {
		h.write(other)
		require.NoError(t, h.o.Steward.Reload())
		h.armed(nil)
		h.write(ending)
		require.NoError(t, h.o.Steward.Reload())
		h.armed(want)
	}
	h.runs(301, byRule)
	h.armed(nil)

	h.K.Advance(patience)
	client = h.asks(210)
	h.armed(nil)
	id := h.runs(310, byRule).ID
	h.armed(map[tracer.Identity]tracer.SessionID{client: id})
	h.K.Exit(210, 0)
	h.K.AllRead()
	h.look(h.t.Context())
	h.armed(nil)
	if info, err := h.K.Session(id); err != nil || info.State != tracer.StateActive {
		t.Errorf("a client that has left its command ended it: %+v, %v", info, err)
	}
}

// TestRevoked: a command is not its client's if another one fits too. The end of the session that asked spares it, and without a
// rule it is released.
func TestRevoked(t *testing.T) {
	for _, spec := range []tracer.SessionSpec{byRule, {}} {
		h := newHost(t, ending)
		h.asks(200)
		h.runs(300, spec)
		h.runs(301, byRule)
		require.NoError(t, h.K.End(h.K.Proc(200).Session, tracer.CauseEnd, 0))
		h.K.AllRead()
		h.look(h.t.Context())
		if p := h.K.Proc(300); p == nil || p.Dead || (p.Session != 0) != (spec.Rule != 0) {
			t.Errorf("rule %v: %+v", spec.Rule, p)
		}
	}
}

// TestInterruptedBefore: a command whose client was interrupted before it was judged ends when it is, with a rule and without one.
func TestInterruptedBefore(t *testing.T) {
	for _, spec := range []tracer.SessionSpec{byRule, {}} {
		h := newHost(t, ending)
		h.asks(200)
		h.runs(300, spec, func() {
			h.K.Exit(200, 9)
			h.K.AllRead()
			require.NoError(t, h.R.Read(func(registry.View) {}))
			for _, ch := range []chan struct{}{h.due, h.asked} { // Run has found nothing due, and does something else
				system.Offer(ch, struct{}{})
				require.Eventually(t, "Run has taken it", func() bool { return len(ch) == 0 })
			}
		})
		require.Eventually(t, "300 is dead", func() bool { p := h.K.Proc(300); return p == nil || p.Dead })
	}
}

// TestEndsOnce: the breaker counts an end once, whether the kernel or the daemon began it, and the kernel forgets the clients of
// a user for whom it is open.
func TestEndsOnce(t *testing.T) {
	h := newHost(t, ending+"breaker: {ends_per_minute: 2}\n")
	h.K.Fail("Release", errors.New("scripted")) // so that the kernel's records can be read after the ends
	for n, open := range []bool{false, false, true} {
		// The kernel does not know the second one's client.
		h.K.Fail("SetClients", map[bool]error{true: errors.New("scripted")}[n == 1])
		h.asks(200 + uint32(n))
		id := h.runs(300+uint32(n), []tracer.SessionSpec{{}, byRule, byRule}[n]).ID
		h.K.Exit(200+uint32(n), 9)
		if info, err := h.K.Session(id); n != 1 && (err != nil || info.Cause != tracer.CauseOwnerExit) {
			t.Errorf("%+v, %v: the kernel has not begun the end", info, err)
		}
		require.Eventually(t, "it is closed", func() (closed bool) {
			h.Update(func(tx registry.Tx) {
				x := tx.Session(id)
				closed = x.Closed() && x.Receipt().EndReason == "owner_exit"
			})
			return closed
		})
		if b := h.o.Rules.BreakerState(); b.Open != open {
			t.Errorf("%+v after %d ends", b, n+1)
		}
	}
	h.asks(210)
	h.runs(310, byRule)
	h.armed(nil)
}

// TestBriefCommand: a command that was over before its container was read has answered its client. An equal one that begins
// then is another's, although the exit code may look as if the client had been interrupted; and so it may be if two had asked.
func TestBriefCommand(t *testing.T) {
	for _, clients := range []uint32{1, 2} {
		h := newHost(t, ending)
		for n := range clients {
			h.asks(200 + n)
		}
		h.connect(func(*request) bool { return true })
		h.K.Add(300, engine, "runc")
		id := h.K.PutIn(300, "sleep")
		h.K.Exec(300, "/bin/sleep", "sleep\x009")
		h.K.Exit(300, 137<<8)
		h.K.AllRead()
		h.Update(func(tx registry.Tx) { tx.LetGo(id) })
		h.K.Exit(200, 137<<8)
		h.K.AllRead()
		id = h.runs(301, byRule).ID
		h.armed(nil)
		h.endDue(h.t.Context())
		if info, err := h.K.Session(id); err != nil || info.State != tracer.StateActive {
			t.Errorf("%d clients: %+v, %v", clients, info, err)
		}
	}
}

// TestAsked: a client is asked while it may get a command, and the host is searched once for the engines that systemd has given
// a socket.
func TestAsked(t *testing.T) {
	h := newHost(t, ending)
	asked := make(chan uint32, 1000)
	h.engines.sockets = func(pid uint32) ([]Socket, error) {
		asked <- pid
		if pid == engine {
			return []Socket{{0, "/run/docker.sock"}}, nil
		}
		return []Socket{{1, "/run/a"}, {1, "/run/b"}, {1, "/run/c"}}, nil
	}
	for _, pid := range []uint32{200, 201} {
		h.asks(pid)
		for i := range 3 {
			of, searched := <-asked, <-asked
			for ; i == 0 && of != pid; of, searched = <-asked, <-asked { // the last time for the one before
			}
			if of != pid || searched != engine {
				t.Errorf("%d and %d were asked for %d", of, searched, pid)
			}
		}
		h.K.Advance(patience + 1)
	}
}

// TestJoinsAfterRestart: a daemon that has just started has the kernel look for the command that a client waits for.
func TestJoinsAfterRestart(t *testing.T) {
	h := newHost(t, "mode: enforce\n")
	h.asks(200)
	require.Eventually(t, "the request is known", func() (known bool) {
		h.Update(func(registry.Tx) {
			known = len(h.sessions) == 1 && h.sessions[h.K.Proc(200).Session].Requests[0].Engine != tracer.Identity{}
		})
		return known
	})
	h.o.Steward.WantJoins(false) // as at a start
	h.look(h.t.Context())
	h.runs(300, tracer.SessionSpec{})
	h.look(h.t.Context())
	h.K.Add(301, engine, "runc")
	if id := h.K.PutIn(301, "sleep"); id != 0 {
		t.Errorf("%v opened although nobody waits", id)
	}
}

// TestClientsRestart: a daemon knows the clients of commands that run: then the kernel knows them, and the command ends with its client.
func TestClientsRestart(t *testing.T) {
	h := newHost(t, ending)
	client := h.asks(200)
	info := h.runs(300, byRule)
	by := h.K.Proc(200).Session
	h.Update(func(tx registry.Tx) {
		for id, text := range map[tracer.SessionID]string{
			by: fmt.Sprintf(`{"Requests":[{"Client":{"PID":200,"Start":%d},"Asked":1,"Container":"web","Command":"c0","Session":%d,"Root":{"PID":300,"Start":%d}}]}`,
				client.Start, info.ID, info.Root.Start),
			info.ID: fmt.Sprintf(`{"Began":true,"Command":"c0","Asker":%d}`, by),
		} {
			h.o.Steward.SetClient(tx.View, id, tracer.Identity{})
			require.NoError(t, h.Restore(tx.View, tx.Session(id), registry.Parts{"clients": []byte(text)}))
		}
	})
	h.o.Steward.Arm()
	h.armed(nil) // before the rules were told
	for _, id := range []tracer.SessionID{info.ID, by} {
		h.Update(func(tx registry.Tx) { h.Hooks().Opened(tx.View, tx.Session(id)) })
	}
	h.o.Steward.Arm()
	h.armed(map[tracer.Identity]tracer.SessionID{client: info.ID})
	h.K.Exit(200, 9)
	h.K.AllRead()
	require.Eventually(t, "300 is dead", func() bool { p := h.K.Proc(300); return p == nil || p.Dead })
}

// TestEndsWithClient: a command ends with a client that handles a signal and exits with 0, and with the session that asked for it. One
// that its client has left on purpose outlives that session if a rule is for it.
func TestEndsWithClient(t *testing.T) {
	handled := func(h *host) {
		h.K.Edit(200, func(p *kerneltest.Proc) { p.Signal = &tracer.Signal{Number: 15, Handled: true} })
		h.K.Exit(200, 0)
	}
	sessionEnds := func(h *host) {
		h.K.Edit(200, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
		require.NoError(h.t, h.K.End(h.K.Proc(200).Session, tracer.CauseEnd, time.Hour))
	}
	under := func(policy string, happen func(h *host)) func(h *host) {
		return func(h *host) {
			h.write(policy)
			require.NoError(h.t, h.o.Steward.Reload())
			happen(h)
		}
	}
	killed := func(h *host) { h.K.Exit(200, 137<<8) }
	for _, test := range []struct {
		name   string
		spec   tracer.SessionSpec
		happen func(h *host)
		ends   bool
	}{
		{"a rule, handled", byRule, handled, true},
		{"no rule, handled", tracer.SessionSpec{}, handled, true},
		{"a rule, its session ends", byRule, sessionEnds, true},
		{"no rule, its session ends", tracer.SessionSpec{}, sessionEnds, true},
		{"a rule, ended with its session", byRule, func(h *host) { sessionEnds(h); h.K.Advance(1); h.K.Exit(200, 0) }, true},
		{"a rule, its command has exited", byRule, func(h *host) { h.K.Fork(300, 301, "sh"); h.K.Exit(300, 0); killed(h) }, false},
		{"a rule, left", byRule, func(h *host) {
			h.reading.Lock() // a look finds the session over before the exit is read
			h.K.Exit(200, 0)
			_, err := h.R.Resync(registry.CauseMember)
			require.NoError(h.t, err)
			time.AfterFunc(50*time.Millisecond, h.reading.Unlock)
			h.look(h.t.Context())
		}, false},
		{"no rule, left", tracer.SessionSpec{}, func(h *host) { h.K.Exit(200, 0) }, true},
		{"no rule, its session lives", tracer.SessionSpec{}, func(*host) {}, false},
		{"no rule, brokers end nothing", tracer.SessionSpec{}, under("mode: enforce\nbrokers: {end: none}\n", sessionEnds), false},
		{"a rule that reports", byRule, under(strings.Replace(ending, "client: end", "client: report", 1), killed), false},
		{"another member exits", byRule, func(h *host) { h.K.Fork(200, 201, "sh"); h.K.Exit(201, 137<<8) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t, ending)
			h.asks(200)
			id := h.runs(300, test.spec).ID
			test.happen(h)
			h.K.AllRead()
			ended := func() bool {
				h.look(h.t.Context())
				info, err := h.K.Session(id)
				return err != nil || info.State != tracer.StateActive
			}
			if test.ends {
				require.Eventually(t, "it ends", ended)
			} else if ended() {
				t.Error("it was ended")
			}
		})
	}
}
