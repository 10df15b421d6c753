//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// never lists documented fields that this test cannot make the daemon send, with what they need.
var never = map[string]string{
	"Process.container": docker, "Outcome.container": docker, "Session.container": docker,
	"Session.container_rule": docker,
	"Container.id":           docker, "Container.name": docker, "Container.image": docker, "Container.runtime": docker,
	"Container.pod": "a pod: daemon/lookup", "Container.namespace": "a pod: daemon/lookup",
	"Brokered.observed": "a verdict while strong evidence is only observed: internal/e2e/brokers",
	"Resync.truncated":  large,
	"Session.continued": stranger, "Continued.running": stranger, "Continued.by": stranger,
	"Holders.hidden":        "a caller who is not root",
	"WatchStatus.read_only": member,
	"Holders.time_wait":     timeWait, "Port.connections": timeWait, "Report.ports_time_wait": timeWait,
	"Report.ports_busy":     "a process outside that shares the listening socket",
	"Report.locks_held":     "a process outside that shares the lock",
	"Report.also":           "a branch with a session in it: TestBranchWithNestedSessions",
	"HaltedSession.refused": "a session with an ancestor of the caller",
	"Plan.refused_by":       "a session with an ancestor of the caller",
	"PlanProcess.reason":    unkillable, "Report.verdict_why": unkillable,
	"SelfCheck.why":      "a self-check that fails",
	"Status.history":     "a history that cannot be written: daemon/status",
	"Sender.passed":      "an owner that passes a signal on: tracer",
	"Session.degraded":   "a kernel side that is damaged",
	"Session.warnings":   "a member that keeps its terminal",
	"Leak.schema":        "a leak as a document; leaks are items",
	"CallLeft.schema":    "a call as a document; calls are items",
	"CallLeft.ambiguous": otherCalls, "CallLeft.kept": otherCalls, "CallLeft.ports": otherCalls,
	"CallLeft.more_run":          otherCalls,
	"CallCommand.argv_truncated": otherCalls, "Orphans.more_calls": otherCalls, "Plan.ambiguous": otherCalls,
	"Plan.call":      otherCalls,
	"Caller.command": "a signed command: TestSigned", "Caller.operators": "a signed command: TestSigned",
	"Receipt.command": "a signed command: TestSigned",
	"Mark.schema":     member, "Mark.kind": member, "Mark.session": member, "Mark.calls": member,
}

// perhaps lists fields that depend on the kernel, the host or chance.
var perhaps = map[string]string{
	"Status.missing": kernel, "Doctor.missing": kernel, "Status.limits": kernel, "Crossing.refused": kernel,
	"Frame.partial":      "a picture that takes the daemon long",
	"Process.first_argv": lostEvent,
	"Outcome.killer":     "a member that another process kills while its session ends: enforcer",
	"Counted.corrected":  lostEvent,
	"Counted.unentered":  "more children at once than the kernel side has room for",
	"Event.count":        lostEvent, "Event.since_ns": lostEvent,
	"Finding.kind": lostEvent, "Finding.process": lostEvent, "Finding.session": lostEvent,
	"Finding.from": lostEvent, "Finding.to": lostEvent,
	"Holders.unknown": unreadable, "Holds.unknown": unreadable, "Plan.unknown": unreadable,
	"Report.holds_unknown": unreadable,
}

const (
	docker     = "docker: internal/e2e/brokers"
	otherCalls = "tool calls that overlap, listen or leave much: internal/e2e/agents, daemon/attribution"
	large      = "more processes than a document names"
	timeWait   = "connections that a member closed first"
	stranger   = "a process outside that continues a paused session: TestPauseContinued"
	unkillable = "a process that cannot be killed: internal/e2e/escapes"
	member     = "a caller inside a session"
	kernel     = "a kernel that lacks something"
	lostEvent  = "an event that is late or lost"
	unreadable = "a process that the daemon may not read"
)

// TestOpenAPI: each answer of each route matches docs/openapi.json: no undocumented
// field is sent, and each documented one is.
func TestOpenAPI(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Fatal("no tmux; run make deps")
	}
	i := stage.New(t)
	d := i.Daemon("--policy", i.Policy("mode: enforce\n"+rules(i)))
	c := newContract(i)
	get := func(path string) { t.Helper(); c.ask(http.MethodGet, path, nil) }
	post := func(path string, body any) { t.Helper(); c.ask(http.MethodPost, path, body) }

	all := sessionsOfEverySort(t, i)
	events := c.open("/v1/events?session=" + i.Record("port").ID)
	watch := c.open("/v1/watch?session=" + i.Record("port").ID)
	picture := c.open("/v1/watch")
	get("/v1/version")
	get("/healthz")
	post("/v1/selfcheck", nil)
	get("/v1/status")
	get("/v1/orphans")
	get("/v1/leaks")
	get("/v1/policy")
	c.refused(http.MethodGet, "/v1/sessions/twin", nil)
	c.refused(http.MethodGet, "/v1/sessions/nonexistent", nil)
	get("/v1/why?port=" + all.port)
	listening := time.Now()
	get("/v1/why?path=" + url.QueryEscape(filepath.Join(i.Dir, "flock")))
	c.open("/v1/watch").until("Frame.status")
	c.open("/v1/events?snapshot=1&until=0s").read()
	post("/v1/resync", nil)
	for _, s := range stage.Query[api.Sessions](i, "ls").Items {
		get("/v1/sessions/" + s.ID)
		get("/v1/sessions/" + s.ID + "/tree?dead=all")
		post("/v1/sessions/"+s.ID+"/plan", nil)
		for _, n := range i.Tree(s.ID).Nodes {
			get("/v1/processes/" + n.Ref.String())
			get("/v1/why?ref=" + n.Ref.String())
			get("/v1/policy/explain?ref=" + n.Ref.String())
		}
	}

	// What clients request.
	for _, adopt := range []bool{true, false} {
		p := stage.Start(t, exec.Command("sleep", "50"))
		post("/v1/sessions", api.NewSession{Root: api.Ref{PID: p.Process.Pid}, Adopt: adopt})
	}
	i.Start([]string{"run", "--name", "branch", "--", "sh", "-c", "sleep 50 & wait"}, nil)
	branch := ""
	i.Until("branch", func() bool {
		for _, s := range stage.Query[api.Sessions](i, "ls").Items {
			if s.Name == "branch" && s.Live == 2 {
				branch = i.Tree(s.ID).Nodes[1].Ref.String()
			}
		}
		return branch != ""
	})
	post("/v1/sessions/branch/pause", nil)
	post("/v1/sessions/branch/resume", nil)
	post("/v1/processes/"+branch+"/plan", nil)
	post("/v1/processes/"+branch+"/end", api.EndRequest{Now: true})
	for _, n := range i.Tree("orphan").Nodes {
		if n.State == api.StateLive && n.Orphan {
			post("/v1/keep", api.KeepRequest{Refs: []api.Ref{n.Ref}, Reason: "a test", Until: time.Now().Add(time.Hour)})
			post("/v1/processes/"+n.Ref.String()+"/kill", api.KillRequest{Signal: "CONT"})
		}
	}
	get("/v1/sessions?state=all")
	get("/v1/orphans")
	get("/v1/leaks")
	ended := func() {
		t.Helper()
		for _, s := range stage.Query[api.Sessions](i, "ls").Items {
			grace := int64(1000)
			post("/v1/sessions/"+s.ID+"/end", api.EndRequest{GraceMS: &grace})
			get("/v1/sessions/" + s.ID)
			get("/v1/sessions/" + s.ID + "/report?wait=30s")
			get("/v1/sessions/" + s.ID + "/tree?dead=all")
			post("/v1/sessions/"+s.ID+"/end", nil)
		}
	}
	ended()
	i.Lineage("run", "--name", "leaver", "--", "sh", "-c", "setsid sleep 50 &")
	get("/v1/sessions/leaver/report")
	watch.read()
	events.read()

	// The policy changes: to an invalid one, one that needs a restart, one that only
	// observes, and one whose breaker opens.
	i.Policy("mode: enforce\ndefaults: {grase: 1s}\n")
	c.refused(http.MethodPost, "/v1/policy/reload", nil)
	get("/v1/policy")
	get("/v1/status")
	get("/healthz")
	c.open("/v1/watch").until("WatchStatus.degraded")
	command := func(what, document string, args ...string) {
		schema := openapi3.NewSchemaRef("#/components/schemas/"+document, c.doc.Components.Schemas[document].Value)
		c.note(what, schema, i.Lineage(append(args, "-o", "json")...).Out.Bytes())
	}
	post("/v1/halt", api.HaltRequest{Mode: api.ModeDrain, Reason: "r"})
	get("/v1/status")
	get("/v1/sessions")
	c.open("/v1/watch").until("WatchStatus.halt")
	command("doctor", "Doctor", "doctor")
	command("status", "DaemonStatus", "status")
	post("/v1/halt", api.HaltRequest{Mode: api.ModeOff})
	i.Policy("mode: observe\nsignals: session\ndefaults: {idle: 1s}\ndaemon: {ring_size: 4MiB}\n")
	post("/v1/policy/reload", nil)
	get("/v1/policy")
	outsider := stage.Start(t, exec.Command("sleep", "50"))
	observed := i.Start([]string{"run", "--name", "observed", "--", "sh", "-c", fmt.Sprintf("kill %d; sleep 5", outsider.Process.Pid)}, nil)
	outsider.Wait()
	get("/v1/sessions/observed")
	observed.Wait()
	get("/v1/sessions/observed/report")
	command("history SESSION", "Past", "history", "observed")
	i.Policy("mode: enforce\ndefaults: {idle: 1s}\nbreaker: {ends_per_minute: 1}\n")
	post("/v1/policy/reload", nil)
	for range 3 {
		i.Lineage("run", "--", "sleep", "5")
	}
	get("/v1/policy")
	post("/v1/policy/resume", nil)
	picture.until("Frame.closed", "Frame.remove")

	// A restart is a gap in the events of a session.
	i.Start([]string{"run", "--name", "over", "--max-lifetime", "1m", "--", "sleep", "60"}, nil)
	i.Until("session", func() bool { return len(stage.Query[api.Sessions](i, "ls").Items) > 0 })
	post("/v1/daemon/stop", nil)
	d.Wait()
	i.Daemon()
	get("/v1/history?limit=2")
	get("/v1/history?after=0.0")
	get("/v1/why?port=" + all.port + "&at=" + url.QueryEscape(listening.Format(time.RFC3339Nano)))
	post("/v1/halt", api.HaltRequest{Mode: api.ModeHalt, Reason: "r", All: true})
	get("/v1/sessions/over/report?wait=30s")
	c.open("/v1/events?since=10m&until=0s").read()
	c.open("/v1/events?from=1&until=0s").read()
	ended()

	unsent := c.unsent(
		"NewSession",
		"EndRequest",
		"HaltRequest",
		"KeepRequest",
		"KillRequest",
		"MarkRequest",
		"StopRequest",
		"SignedCommand",
		"Command",
		"CommandReceipt",
		"CommandReply",
	)
	for _, field := range unsent {
		if never[field] == "" && perhaps[field] == "" {
			t.Errorf("%s is documented, and was not sent", field)
		}
	}
	for field := range never {
		if !slices.Contains(unsent, field) {
			t.Errorf("%s was sent, without %s", field, never[field])
		}
	}
}

func rules(i *stage.Instance) string {
	return fmt.Sprintf(`trace: accept
agents:
  - {name: oapi, enabled: true, match: {comm: lngtest-oapi}, grace: 1s}
keep:
  - {name: kept-by-rule, match: {exe: %[1]s/lngtest-kept}, reason: a test, until: 2099-01-01}
  - {name: never-matched, match: {exe: /nonexistent/lngtest}, reason: a test, until: 2099-01-01}
protect:
  - {name: shielded, match: {exe: %[1]s/lngtest-oapi}, reason: a test}
brokers:
  shared:
    - {name: pooled, match: {exe: %[2]s}, end: last}
`, i.Dir, stage.Program("shared"))
}

// started has what the sessions hold.
type started struct{ port string }

// sessionsOfEverySort starts them, and waits until the daemon knows what they hold.
func sessionsOfEverySort(t *testing.T, i *stage.Instance) (s started) {
	t.Helper()
	run := func(name string, program ...string) *stage.Marker {
		t.Helper()
		m := stage.NewMarker(t, i.Dir)
		i.Run(m, []string{"--name", name, "--grace", "1s"}, program[0], program[1:]...)
		return m
	}
	plain := func(name string, command ...string) {
		i.Start(slices.Concat([]string{"run", "--name", name, "--"}, command), nil)
	}
	s.port = run("port", "port", "10").Line("port", 1)[0]
	run("lock", "lock", i.Dir).Members(1)
	plain("waiting", "flock", filepath.Join(i.Dir, "flock"), "true")
	run("orphan", "daemonise", "stay").Members(1)
	run("zombies", "zombies", "3").Ready()
	run("shared", "served", filepath.Join(i.Dir, "shared"), "start").Members(1)
	// A member that is stopped, and one that sends itself SIGTERM, handles it, and sends it again.
	plain("signals", "sh", "-c", `sleep 60 & kill -STOP $!; sh -c 'trap "trap - TERM; kill -TERM \$\$" TERM; kill -TERM $$'; sleep 60`)
	plain("long", append([]string{"sleep", "60"}, slices.Repeat([]string{"0"}, 3000)...)...)
	plain("outer", stage.Lineage, "run", "--name", "inner", "--", "sleep", "60")
	kept := named(t, i.Dir, "daemonise", "lngtest-kept")
	plain("keeping", "sh", "-c", kept+" stay & sleep 60")
	stage.Urgent(func() { // a hook gives up after 200 ms
		plain(
			"calling",
			"env",
			"TRACEPARENT=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
			"timeout",
			"100",
			"sh",
			"-c",
			`hook() { echo "{\"hook_event_name\":\"$1\",\"tool_name\":\"Bash\",\"tool_use_id\":\"one\"}" | `+stage.Lineage+` hook claude-code; }
		hook PreToolUse; sleep 60 & hook PostToolUse; wait`,
		)
	})
	agent := named(t, i.Dir, "port", "lngtest-oapi")
	cmd := exec.Command(agent, "10")
	cmd.Env = append(os.Environ(), stage.NewMarker(t, i.Dir).Env()...)
	stage.Start(t, cmd)
	for _, uid := range []uint32{65532, 65533} { // so the name is ambiguous
		cmd := i.Command([]string{"run", "--name", "twin", "--", "sleep", "60"}, nil)
		cmd.Path = i.Copy(stage.Lineage) // the checkout may be in a home that is closed to others
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		stage.Start(t, cmd)
	}

	// Windows of a tmux server that no session knows of, with the session's secret and without.
	tmux := "tmux -f /dev/null -S " + filepath.Join(i.Dir, "tmux")
	if out, err := exec.Command("sh", "-c", tmux+" new-session -d 'sleep 100'").CombinedOutput(); err != nil {
		t.Fatalf("tmux: %v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("sh", "-c", tmux+" kill-server").Run() })
	run("weak", "ask", "sh", "-c", tmux+" new-window -d 'exec sleep 99'").Ready()
	run("strong", "ask", "sh", "-c", tmux+` new-window -d -e LINEAGE_TOKEN="$LINEAGE_TOKEN" 'exec sleep 98'`).Ready()
	for _, name := range []string{"weak", "strong"} {
		i.Until("brokered window", func() bool {
			return slices.ContainsFunc(i.Record(name).Brokered, func(b api.Brokered) bool { return b.State == "attributed" })
		})
	}
	i.Until("all sessions", func() bool { return len(stage.Query[api.Sessions](i, "ls").Items) >= 16 })
	time.Sleep(3 * time.Second) // the daemon reads what sessions hold every 2 s, and later on a busy machine
	client, err := api.Dial(t.Context(), i.Socket)
	require.NoError(t, err)
	defer client.Close()
	i.Until("locks that are held", func() bool {
		held, err := client.Leaks(t.Context(), "")
		return err == nil && slices.ContainsFunc(held.Items, func(l api.Leak) bool { return len(l.Locks) > 0 })
	})
	return s
}
