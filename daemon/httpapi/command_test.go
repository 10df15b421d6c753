//go:build linux

package httpapi_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// ordered is a daemon that takes commands of two operators: ann may do everything, ben with sessions of uid 1000
// whose name begins with ci-.
type ordered struct {
	*daemontest.Daemon
	keys map[string]ssh.Signer
	host string // fingerprint
}

func newOrdered(t *testing.T) *ordered {
	t.Helper()
	o := &ordered{keys: map[string]ssh.Signer{}}
	key := func(name string) (ssh.Signer, ed25519.PrivateKey) {
		_, private, err := ed25519.GenerateKey(nil)
		require.NoError(t, err)
		s, err := ssh.NewSignerFromKey(private)
		require.NoError(t, err)
		o.keys[name] = s
		return s, private
	}
	o.Daemon = daemontest.New(t, daemontest.WithPolicy("operators: [{name: ann, verbs: [end, halt]}, {name: ben, verbs: [end, halt], users: '1000', sessions: 'ci-*'}]\n"),
		func(d *daemontest.Daemon) {
			d.Host.Files = d.Dir
			host, private := key("host")
			o.host = ssh.FingerprintSHA256(host.PublicKey())
			block, err := ssh.MarshalPrivateKey(private, "")
			etc := filepath.Join(d.Dir, "etc/ssh")
			require.NoError(t, err, os.MkdirAll(etc, 0o755), os.WriteFile(etc+"/ssh_host_ed25519_key", pem.EncodeToMemory(block), 0o600),
				os.WriteFile(etc+"/ssh_host_ed25519_key.pub", ssh.MarshalAuthorizedKey(host.PublicKey()), 0o644))
			lines := ""
			for _, name := range []string{"ann", "ben"} {
				s, _ := key(name)
				lines += name + " " + string(ssh.MarshalAuthorizedKey(s.PublicKey()))
			}
			require.NoError(t, os.WriteFile(filepath.Join(d.Dir, "operators"), []byte(lines), 0o644),
				os.Mkdir(filepath.Dir(d.Instance.Commands), 0o700),
				os.WriteFile(d.Instance.Commands, []byte(`{"floor":"2026-01-01T00:00:00Z"}`), 0o600)) // as of an earlier daemon
		})
	return o
}

// command signs a command about sessions, which edit may change.
func (o *ordered) command(signer string, edit func(*api.Command), sessions ...string) *api.SignedCommand {
	now := o.Host.Clock.Zero().Add(o.K.Now())
	c := api.Command{
		V: 1, ID: api.NewCommandID(), Verb: api.VerbEnd, Hosts: []string{o.host}, Sessions: sessions, Reason: "a test",
		Issued: now, NotAfter: now.Add(time.Minute),
	}
	if edit != nil {
		edit(&c)
	}
	s, err := sshsig.Sign(strings.NewReader(c.Text()), o.keys[signer], sshsig.HashSHA256, api.CommandNamespace)
	require.NoError(o, err)
	return &api.SignedCommand{Command: c.Text(), Signatures: []string{string(sshsig.Armor(s))}}
}

// forgotten fails the test if a command that was refused is remembered.
func (o *ordered) forgotten(s *api.SignedCommand) {
	o.Helper()
	var c api.Command
	require.NoError(o, json.Unmarshal([]byte(s.Command), &c))
	o.Do("else", "GET", "/v1/commands/"+c.ID, nil).Refused(api.CodeNotFound)
}

// receipt checks the host's signature, and returns what it signed.
func (o *ordered) receipt(d *api.CommandReply) (r api.CommandReceipt) {
	o.Helper()
	s, err := sshsig.Unarmor([]byte(d.Signature))
	require.NoError(o, err, sshsig.Verify(strings.NewReader(d.Receipt), s, o.keys["host"].PublicKey(), s.HashAlgorithm, api.ReceiptNamespace),
		json.Unmarshal([]byte(d.Receipt), &r))
	require.Equal(o, d.HostKey, o.host)
	return r
}

// TestCommand: a user without rights of its own brings a command, which ends what the operator may end, once,
// and gets the receipt that the host has signed.
func TestCommand(t *testing.T) {
	o := newOrdered(t)
	s := o.Session("user", 100, api.NewSession{Name: "x", GraceMS: daemontest.MS(0)})
	o.Fork(100, 101, 1000, "lngtest-child")
	same := o.Session("root", 200, api.NewSession{Name: "x", GraceMS: daemontest.MS(0)})
	spared := o.Session("user", 300, api.NewSession{Name: "y"})
	command := o.command("ann", nil, "x")
	d := daemontest.Into[api.CommandReply](o.Do("else", "POST", "/v1/commands", command), http.StatusAccepted)
	r := o.receipt(d)
	if r.Complete || len(r.Reports) != 0 || !slices.Equal(r.Operators, []string{"ann"}) || r.Reason != "a test" || r.Verb != "end" ||
		!slices.Equal(r.Sessions, []string{s.ID, same.ID}) {
		t.Errorf("accepted: %+v", r)
	}
	r = o.receipt(daemontest.Get[api.CommandReply](o, "else", "/v1/commands/"+r.ID+"?wait=60s"))
	if !r.Complete || len(r.Reports) != 2 {
		t.Fatalf("receipt %+v", r)
	}
	for _, report := range r.Reports {
		by := report.EndedBy
		if report.Verdict != api.VerdictClean || by == nil || by.Command != r.ID || !slices.Equal(by.Operators, []string{"ann"}) || by.PID != daemontest.Else {
			t.Errorf("report %+v by %+v", report, by)
		}
	}
	o.Survive([]uint32{100, 101, 200, 300}, 300)
	o.Do("else", "POST", "/v1/commands", command).Refused(api.CodeDenied)
	// Its receipt is for the caller that brought it, and for root.
	o.Do("user", "GET", "/v1/commands/"+r.ID, nil).Refused(api.CodeNotFound)
	daemontest.Get[api.CommandReply](o, "root", "/v1/commands/"+r.ID)
	o.Restart()
	o.Do("root", "POST", "/v1/commands", command).Refused(api.CodeDenied)
	r = o.receipt(daemontest.Get[api.CommandReply](o, "else", "/v1/commands/"+r.ID))
	if !r.Complete || len(r.Reports) != 2 {
		t.Errorf("after a restart: %+v", r)
	}
	// Without the history the receipt says so.
	o.Applied()
	o.Halt()
	files, err := filepath.Glob(o.Instance.History + "*")
	require.NoError(t, err)
	for _, file := range files {
		require.NoError(t, os.Remove(file))
	}
	o.Start()
	r = o.receipt(daemontest.Get[api.CommandReply](o, "else", "/v1/commands/"+r.ID))
	if !r.Complete || len(r.Reports) != 2 || r.Reports[0].Session != s.ID || r.Reports[0].Verdict != api.VerdictUnknown {
		t.Errorf("without a history: %+v", r)
	}
	if daemontest.Get[api.Session](o, "user", "/v1/sessions/"+spared.ID).State != "active" {
		t.Error("a session that the command did not name is ending")
	}
	o.Halt()
	require.Contains(t, o.Audit(), `"verb":"command","decision":"done","reason":"a test"`, `"operators":["ann"]`, `"decision":"refused","reason":"it was accepted before`)
}

// TestCommandRefused: what a command may not do it does not do in part either, and it is not remembered.
func TestCommandRefused(t *testing.T) {
	o := newOrdered(t)
	o.Session("user", 100, api.NewSession{Name: "ci-1"})
	o.Session("user", 200, api.NewSession{Name: "other"})
	o.Session("root", 300, api.NewSession{Name: "other"})
	plan := func(c *api.Command) { c.Plan = "none" }
	o.K.Edit(200, func(p *kerneltest.Proc) { p.Flags |= tracer.FlagProtected })
	for name, c := range map[string]struct {
		command *api.SignedCommand
		code    string
		why     string
	}{
		"another name":         {o.command("ben", nil, "other"), api.CodeDenied, "the policy does not let ben end sessions of this user and name"},
		"one of two":           {o.command("ben", nil, "ci-1", "other"), api.CodeDenied, "the policy does not let ben"},
		"one of two, guarded":  {o.command("ann", nil, "ci-1", "other"), api.CodeGuarded, "is protected"},
		"one of two, missing":  {o.command("ann", nil, "ci-1", "nosuch"), api.CodeNotFound, "not found"},
		"no plan of anybody":   {o.command("ann", plan, "ci-1"), api.CodeChanged, "no longer holds"},
		"a halt of no session": {o.command("ann", func(c *api.Command) { c.Verb, c.Mode = api.VerbHalt, api.ModeHalt }, "nosuch"), api.CodeNotFound, "not found"},
		"nine signatures":      {&api.SignedCommand{Command: o.command("ann", nil, "ci-1").Command, Signatures: make([]string, 9)}, api.CodeDenied, "more than 8"},
	} {
		t.Run(name, func(t *testing.T) {
			a := o.Do("else", "POST", "/v1/commands", c.command)
			a.T = t
			if e := a.Refused(c.code); !strings.Contains(e.Message, c.why) {
				t.Errorf("message %q, want %q", e.Message, c.why)
			}
			o.forgotten(c.command)
		})
	}
	o.Do("100", "POST", "/v1/commands", o.command("ann", nil, "other")).Refused(api.CodeDenied) // a member
	o.Unsignalled()
	o.Survive([]uint32{100, 200}, 100, 200)
}

// TestCommandPlanAfterDisk: a plan that no longer holds once the command is on the disk ends nothing, and the receipt says why.
func TestCommandPlanAfterDisk(t *testing.T) {
	o := newOrdered(t)
	clock := o.Host.Clock.Clock
	var late atomic.Bool
	o.Host.Clock.Clock = func() time.Time {
		if late.Load() && strings.Contains(string(debug.Stack()), "checker).accept") {
			o.Fork(100, 101, 1000, "lngtest-late")
		}
		return clock()
	}
	o.Restart()
	s := o.Session("user", 100, api.NewSession{Name: "ci-1"})
	plan := daemontest.Into[api.Plan](o.Do("root", "POST", "/v1/sessions/"+s.ID+"/plan", nil), http.StatusOK)
	command := o.command("ann", func(c *api.Command) { c.Plan = plan.Token }, s.ID)
	late.Store(true)
	o.Do("else", "POST", "/v1/commands", command).Refused(api.CodeChanged)
	o.Unsignalled()
	var c api.Command
	require.NoError(t, json.Unmarshal([]byte(command.Command), &c))
	r := o.receipt(daemontest.Get[api.CommandReply](o, "else", "/v1/commands/"+c.ID))
	if !r.Complete || len(r.Sessions) > 0 || len(r.Spared) != 1 || !strings.Contains(r.Spared[0], "pid 101 is not in the plan") {
		t.Errorf("%+v", r)
	}
}

// TestCommandIncomplete: the receipt of a command is not complete before each session has its verdict, and in another boot it is
// not found: other sessions may have the ids.
func TestCommandIncomplete(t *testing.T) {
	o := newOrdered(t)
	o.Session("user", 100, api.NewSession{Name: "ci-1", GraceMS: daemontest.MS(60_000)})
	o.K.Edit(100, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
	r := o.receipt(daemontest.Into[api.CommandReply](o.Do("else", "POST", "/v1/commands", o.command("ann", nil, "ci-1")), http.StatusAccepted))
	if r = o.receipt(daemontest.Get[api.CommandReply](o, "else", "/v1/commands/"+r.ID)); r.Complete || len(r.Reports) != 1 || r.Reports[0].Verdict != "" {
		t.Errorf("%+v", r)
	}
	o.Halt()
	daemontest.WithBoot("another")(o.Daemon)
	o.Start()
	o.Do("else", "GET", "/v1/commands/"+r.ID, nil).Refused(api.CodeNotFound)
}

// TestReceipts: one request after the other gives each receipt of sessions and of commands, once: also after a restart, and in another boot
// those of the boot before. No secret is in them, whoever asks. They are for root and the group, not for other users, members, or who brought a command.
func TestReceipts(t *testing.T) {
	o := newOrdered(t)
	place, seen, who := "0.0", map[string]*api.Receipt{}, "reader"
	next := func() *api.Receipt {
		answer := o.Do(who, "GET", "/v1/history?after="+place, nil)
		if answer.Status == http.StatusTooManyRequests {
			return nil
		}
		d := daemontest.Into[api.Sessions](answer, http.StatusOK)
		place = d.Next
		if r := d.Receipt; r != nil {
			if bytes.Contains(answer.Body, []byte("hunter2")) || bytes.Contains(answer.Body, []byte("argv")) != bytes.Contains(answer.Body, []byte("[redacted]")) {
				t.Errorf("%s gets %s", who, answer.Body)
			}
			if seen[r.ID] != nil {
				t.Errorf("again: %+v", r)
			}
			seen[r.ID] = r
		}
		return d.Receipt
	}
	ends := func(pid uint32, name string, grace int64) (session, command string) {
		s := o.Session("user", pid, api.NewSession{Name: name, GraceMS: daemontest.MS(grace)})
		o.K.Edit(pid, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
		o.K.Exec(pid, "/bin/a", "a\x00--password=hunter2\x00")
		c := daemontest.Into[api.CommandReply](o.Do("else", "POST", "/v1/commands", o.command("ann", nil, name)), http.StatusAccepted)
		return s.ID + "-" + s.Root.Ref.String(), "command-" + o.receipt(c).ID
	}
	over := func(session, command, why string) {
		t.Helper()
		o.Until(func() bool { next(); return seen[session] != nil && seen[command] != nil })
		r := o.receipt(seen[command].Command)
		if d := seen[session].Report; d.VerdictWhy != why || d.Verdict != api.VerdictClean || !r.Complete || len(r.Reports) != 1 || r.Reports[0].VerdictWhy != why {
			t.Errorf("%+v, %+v", d, r)
		}
	}
	session, command := ends(100, "ci-0", 0)
	over(session, command, "")
	o.Restart()
	who = "root"
	session, command = ends(200, "ci-1", 0)
	over(session, command, "")
	for _, after := range []string{place, "now"} {
		if d := daemontest.Get[api.Sessions](o, "root", "/v1/history?after="+after); d.Receipt != nil || d.Next != place {
			t.Errorf("%s: %+v", after, d)
		}
	}
	o.Session("user", 300, api.NewSession{Name: "ci-2"})
	for _, who := range []string{"else", "user", "300"} {
		o.Do(who, "GET", "/v1/history?after="+place, nil).Refused(api.CodeDenied)
	}
	for _, bad := range []string{"", "x", "1", "1.2.3", "+1.2", "1.2x"} {
		o.Do("root", "GET", "/v1/history?after="+bad, nil).Refused(api.CodeBadRequest)
	}
	session, command = ends(400, "ci-3", 60_000)
	o.Halt()
	daemontest.WithBoot("another")(o.Daemon)
	o.Start()
	over(session, command, "the host was restarted: no process survives that")
}

// TestCommandForAll: all means the sessions that the operator may end, and that are not kept.
func TestCommandForAll(t *testing.T) {
	o := newOrdered(t)
	var ended []string
	for i, pid := range []uint32{100, 200} {
		ended = append(ended, o.Session("user", pid, api.NewSession{Name: fmt.Sprintf("ci-%d", i), GraceMS: daemontest.MS(0)}).ID)
	}
	o.Session("root", 300, api.NewSession{Name: "ci-root"})
	o.Session("user", 400, api.NewSession{Name: "work"})
	o.Fork(400, 401, 1000, "lngtest-kept")
	daemontest.Into[api.Session](o.Keep("user", 401), http.StatusCreated)
	d := daemontest.Into[api.CommandReply](o.Do("else", "POST", "/v1/commands", o.command("ben", func(c *api.Command) { c.All = true })), http.StatusAccepted)
	if r := o.receipt(d); !slices.Equal(r.Sessions, ended) {
		t.Errorf("ends %v, want %v", r.Sessions, ended)
	}
	for _, id := range ended {
		o.Receipt(id)
	}
	o.Survive([]uint32{100, 200, 300, 400, 401}, 300, 400, 401)
	all := o.command("ann", func(c *api.Command) { c.All, c.GraceMS = true, daemontest.MS(0) })
	d = daemontest.Into[api.CommandReply](o.Do("else", "POST", "/v1/commands", all), http.StatusAccepted)
	if r := o.receipt(d); len(r.Sessions) != 2 {
		t.Errorf("ends %v", r.Sessions)
	}
	o.Until(func() bool { return o.Dead(300) && o.Dead(400) })
	o.Survive([]uint32{300, 400, 401}, 401)
}

// TestCommandPattern: a pattern means the sessions with such names that the host has then, without kept ones, and with plans
// only if each of them has one.
func TestCommandPattern(t *testing.T) {
	o := newOrdered(t)
	var ids, tokens []string
	planned := func(c *api.Command) { c.Plan = strings.Join(tokens, ",") }
	send := func(sessions ...string) daemontest.Reply {
		return o.Do("else", "POST", "/v1/commands", o.command("ann", planned, sessions...))
	}
	open := func(pid uint32, name string) {
		s := o.Session("user", pid, api.NewSession{Name: name, GraceMS: daemontest.MS(0)})
		plan := daemontest.Into[api.Plan](o.Do("root", "POST", "/v1/sessions/"+s.ID+"/plan", nil), http.StatusOK)
		ids, tokens = append(ids, s.ID), append(tokens, plan.Token)
	}
	open(100, "ci-1")
	open(200, "ci-2")
	o.Session("user", 300, api.NewSession{Name: "work"})
	o.Fork(300, 301, 1000, "lngtest-kept")
	daemontest.Into[api.Session](o.Keep("user", 301), http.StatusCreated)
	o.Session("user", 400, api.NewSession{Name: "ci-late"})
	send("ci-*").Refused(api.CodeChanged)
	send("ci-?", "lngtest-*").Refused(api.CodeNotFound)
	send("ci-?", "none*").Refused(api.CodeNotFound)
	o.Unsignalled()
	if r := o.receipt(daemontest.Into[api.CommandReply](send("ci-?"), http.StatusAccepted)); !slices.Equal(r.Sessions, ids) {
		t.Errorf("ends %v, want %v", r.Sessions, ids)
	}
	o.Until(func() bool { return o.Dead(100) && o.Dead(200) })
	o.Survive([]uint32{100, 200, 300, 301, 400}, 300, 301, 400)
}

// TestCommandHalt: a signed halt ends what it names, and holds until a signed command lifts it.
func TestCommandHalt(t *testing.T) {
	o := newOrdered(t)
	s := o.Session("user", 100, api.NewSession{Name: "ci-1"})
	other := o.Session("user", 200, api.NewSession{Name: "ci-2"})
	in := o.K.Proc(200).Session
	o.K.Edit(daemontest.Shell, func(p *kerneltest.Proc) { p.Session = in }) // it has an ancestor of the daemon
	halt := func(mode string) func(*api.Command) {
		return func(c *api.Command) {
			c.Verb, c.Mode, c.All = api.VerbHalt, mode, mode == api.ModeHalt && len(c.Sessions) == 0
		}
	}
	carried := func(c *api.SignedCommand) api.CommandReceipt {
		t.Helper()
		r := o.receipt(daemontest.Into[api.CommandReply](o.Do("else", "POST", "/v1/commands", c), http.StatusAccepted))
		return o.receipt(daemontest.Get[api.CommandReply](o, "else", "/v1/commands/"+r.ID+"?wait=60s"))
	}
	if r := carried(o.command("ann", halt(api.ModeDrain))); !r.Complete || r.Mode != api.ModeDrain || o.K.Halted().Mode != tracer.HaltDrain {
		t.Errorf("%+v, %+v", r, o.K.Halted())
	}
	command := o.command("ann", halt(api.ModeHalt))
	r := carried(command)
	if !r.Complete || !slices.Equal(r.Sessions, []string{s.ID}) || len(r.Reports) != 1 || r.Reports[0].Verdict != api.VerdictClean ||
		r.Reports[0].EndedBy.Command != r.ID || len(r.Spared) != 1 || !strings.Contains(r.Spared[0], other.ID) {
		t.Errorf("%+v", r)
	}
	o.Survive([]uint32{100, 200}, 200)
	o.Restart()
	o.Do("else", "POST", "/v1/commands", command).Refused(api.CodeDenied)
	if again := o.receipt(daemontest.Get[api.CommandReply](o, "else", "/v1/commands/"+r.ID)); !slices.Equal(again.Sessions, r.Sessions) {
		t.Errorf("after a restart: %+v", again)
	}
	if h := o.K.Halted(); h.Mode != tracer.HaltAll || h.Reason != "a test" {
		t.Errorf("%+v", h)
	}
	if r := carried(o.command("ann", halt(api.ModeOff))); !r.Complete || o.K.Halted() != (tracer.Halt{}) {
		t.Errorf("%+v, %+v", r, o.K.Halted())
	}
}
