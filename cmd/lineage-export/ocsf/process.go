package ocsf

import (
	"cmp"
	"fmt"
	"os/user"
	"path"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
)

// The bounds of the ancestry of an event, and of each command line in it and in a finding: a chain of
// processes that fork a successor and exit has no end.
const (
	maxAncestry  = 32
	maxShortArgs = 256 // bytes
)

// lineageFields are lineage's own facts.
type lineageFields struct {
	Session *session    `json:"session,omitempty"` // (all of a session)
	Creator *processRef `json:"creator,omitempty"` // (1007, 7003) the process that forked it
	// (1007) why it is a member, see [REFERENCE.md](REFERENCE.md#evidence). `adopted` and `reconciled`: the process ran before `time`, see
	// `process.created_time`
	Evidence   string     `json:"evidence,omitempty"`
	Confidence string     `json:"confidence,omitempty"`    // (1007) how sure that is: strong or weak
	Signal     string     `json:"signal,omitempty"`        // (`exit`) the signal that killed it
	Sender     *sender    `json:"sender,omitempty"`        // (`exit`) who sent that signal, or the one that it handled before it exited
	CPUSeconds float64    `json:"cpu_seconds,omitempty"`   // (`exit`) CPU time
	MaxRSS     uint64     `json:"max_rss_bytes,omitempty"` // (`exit`) the largest resident size
	Trace      *trace     `json:"trace,omitempty"`         // (1007) its span, as `lineage export --otlp` sends it
	Calls      []call     `json:"tool_calls,omitempty"`    // (1007) the agent's tool calls that it may belong to, as the agent claims
	Outcome    string     `json:"outcome,omitempty"`       // (`outcome`) `self`, `term`, `kill`, `left`, `kept`, `branch`
	Why        string     `json:"why,omitempty"`           // (`outcome`, `budget`) why it is alive or kept; the limit
	Leftover   bool       `json:"leftover,omitempty"`      // (`outcome`) it was alive when the root was gone, before the end began
	Receipt    *receipt   `json:"receipt,omitempty"`       // (`end`) numbers are of processes; [end reasons](REFERENCE.md#end-reasons) and [verdicts](REFERENCE.md#verdicts)
	Lost       *lost      `json:"lost,omitempty"`          // (`lost`) the gap
	Condition  *condition `json:"condition,omitempty"`     // (`degraded`, `breaker`) the daemon's status
}

// launch is the event of a fork, or of an exec. Its actor is the creator, or the process
// with the program that it ran before.
func (e *Encoder) launch(r *follow.Record) *event {
	v := newEvent(r, launched, informational, r.ID, string(r.Kind), launchMessage(r))
	e.describe(v, r)
	if r.Kind == api.EventExec {
		v.LaunchTypeID, v.LaunchType = 3, "Exec"
		v.Actor.Process = e.image(r, was(r))
		return v
	}
	v.LaunchTypeID, v.LaunchType = 2, "Fork"
	v.Actor.Process = e.image(r, known(r, r.Process().Creator))
	return v
}

// was is the process of an exec before it.
func was(r *follow.Record) *api.Process {
	p := &api.Process{Ref: r.Process().Ref, Started: r.Process().Started}
	if w := r.Event.Was; w != nil {
		p.Comm, p.Exe, p.UID = w.Comm, w.Exe, w.UID
		args, cut := follow.CutArgs(strings.Join(w.Argv, " "), follow.MaxArgs)
		p.Argv, p.ArgvTruncated = []string{args}, cut || w.ArgvTruncated
	}
	return p
}

// known is a process as it was read last, or by its identity alone; nil stays nil.
func known(r *follow.Record, ref *api.Ref) *api.Process {
	if ref == nil {
		return nil
	}
	return cmp.Or(r.Known.Process(*ref), &api.Process{Ref: *ref})
}

// changed reports whether a process has another effective user since its last program began: it
// executed a set-user-ID program, or called setuid before.
func changed(r *follow.Record) bool {
	w, p := r.Event.Was, r.Process()
	return w != nil && w.UID != nil && p.UID != nil && *w.UID != *p.UID
}

// setUser is the event of a process that has another user. Its actor is the process with the
// program and the user that it had before.
func (e *Encoder) setUser(r *follow.Record) *event {
	v := newEvent(r, setUserID, informational, follow.DerivedID("setuid", r.ID), "setuid", "")
	e.describe(v, r)
	v.Actor.Process = e.image(r, was(r))
	v.Message = fmt.Sprintf("%s became user %s, before %s%s",
		named(r.Process()), userName(v.Process.User), userName(v.Actor.Process.User), ofSession(r))
	return v
}

// exit is the event of the exit of a process's last thread. OCSF wants the process as its own
// actor where it exits on its own, and where the origin of a signal is unknown.
func (e *Encoder) exit(r *follow.Record) *event {
	p := r.Process()
	v := newEvent(r, terminated, informational, r.ID, string(r.Kind), exitMessage(r))
	e.describe(v, r)
	v.Actor.Process = &process{entity: v.Process.entity}
	v.ExitCode = p.ExitCode
	v.Unmapped.Lineage.Signal, v.Unmapped.Lineage.CPUSeconds, v.Unmapped.Lineage.MaxRSS = p.Signal, p.CPUSeconds, p.RSSBytes
	e.killed(v, r)
	return v
}

// killed adds who sent the signal that a process died of.
func (e *Encoder) killed(v *event, r *follow.Record) {
	k := r.Process().Killer
	if k == nil {
		return
	}
	s := &sender{Kind: k.Kind, Signal: k.Signal, Handled: k.Handled, Raised: k.Raised, Passed: k.Passed}
	v.Unmapped.Lineage.Sender = s
	by := k.Process
	if by == nil {
		return
	}
	s.Process, s.Session = &processRef{UID: follow.ProcessUID(r, by.Ref),
		PID: by.PID, Name: by.Comm}, by.Session
	if by.Ref == r.Process().Ref {
		return
	}
	v.Actor.Process = &process{entity: entityOf(r, by.Ref)}
	v.Actor.Process.Name = by.Comm
	if by.UID != nil {
		v.Actor.Process.User = e.users.user(*by.UID)
	}
}

// describe adds what every event of a process has.
func (e *Encoder) describe(v *event, r *follow.Record) {
	p := r.Process()
	v.Actor = &actor{AppUID: v.Metadata.CorrelationUID}
	if r.Session != nil {
		v.Actor.AppName = r.Session.Name
	}
	v.Process = e.process(v, r, p)
	x := &v.Unmapped.Lineage
	x.Creator = creatorOf(r, p)
	if p.Evidence != nil {
		x.Evidence, x.Confidence = p.Evidence.Kind, p.Evidence.Confidence
	}
	if at := r.Span(); at.TraceID != (follow.TraceID{}) {
		x.Trace = &trace{at.TraceID.String(), at.SpanID.String(), p.Trace != nil &&
			p.Trace.TraceID == at.TraceID.String()}
	}
	for _, c := range p.Calls {
		x.Calls = append(x.Calls, call{c.ID, c.Tool})
	}
}

// containerOf is a container; nil: none. The schema has no name of its pod.
func containerOf(c *api.Container) *container {
	if c == nil {
		return nil
	}
	return &container{UID: c.ID, Name: c.Name, Runtime: c.Runtime}
}

// process is a process with its parent and its ancestors, for an event, which says if something was cut.
func (e *Encoder) process(v *event, r *follow.Record, p *api.Process) *process {
	d := e.image(r, p)
	v.Metadata.IsTruncated = v.Metadata.IsTruncated || p.ArgvTruncated
	if r.Kind != api.EventExec { // that has told all of it
		v.cut(&d.CmdLine, follow.MaxArgs)
	}
	d.Container = containerOf(p.Container)
	if p.Exited != nil {
		d.TerminatedTime = p.Exited.UnixMilli()
	}
	if p.Parent != nil {
		d.Parent = e.image(r, known(r, p.Parent))
	}
	ancestors := r.Known.Ancestry(p)
	if len(ancestors) > maxAncestry {
		ancestors, v.Metadata.IsTruncated = ancestors[:maxAncestry], true
	}
	for _, a := range ancestors {
		x := entityOfImage(r, a)
		v.cut(&x.CmdLine, maxShortArgs)
		d.Ancestry = append(d.Ancestry, x)
	}
	if len(ancestors) == 0 && p.Creator != nil {
		d.Ancestry = []entity{entityOf(r, *p.Creator)}
	}
	return d
}

func (v *event) cut(args *string, room int) {
	var cut bool
	*args, cut = follow.CutArgs(*args, room)
	v.Metadata.IsTruncated = v.Metadata.IsTruncated || cut
}

// creatorOf is the process that forked p; nil: not known.
func creatorOf(r *follow.Record, p *api.Process) *processRef {
	if p.Creator == nil {
		return nil
	}
	return refOf(r, *p.Creator, known(r, p.Creator).Comm)
}

func refOf(r *follow.Record, p api.Ref, comm string) *processRef {
	return &processRef{follow.ProcessUID(r, p), p.PID, comm}
}

// image is a process with the program that it runs, as far as that is known; nil stays nil.
func (e *Encoder) image(r *follow.Record, p *api.Process) *process {
	if p == nil {
		return nil
	}
	d := &process{entity: entityOfImage(r, p)}
	if p.Exe != "" {
		d.File = &file{Name: path.Base(p.Exe), Path: p.Exe, TypeID: 1, Type: "Regular File"}
	}
	if p.UID != nil {
		d.User = e.users.user(*p.UID)
	}
	return d
}

func entityOfImage(r *follow.Record, p *api.Process) entity {
	d := entityOf(r, p.Ref)
	d.Name, d.Path, d.CmdLine = p.Comm, p.Exe, strings.Join(p.Argv, " ")
	if p.Started != nil {
		d.CreatedTime = p.Started.UnixMilli()
	}
	return d
}

func entityOf(r *follow.Record, p api.Ref) entity {
	return entity{UID: follow.ProcessUID(r, p), PID: p.PID}
}

// maxUsers bounds the users whose names are remembered.
const maxUsers = 1024

type users struct {
	name  func(uid string) string // empty: the host has none
	known map[int]*account
}

func nameOnHost(uid string) string {
	u, err := user.LookupId(uid)
	if err != nil {
		return ""
	}
	return u.Username
}

func (u *users) user(uid int) *account {
	if d := u.known[uid]; d != nil {
		return d
	}
	if u.known == nil || len(u.known) >= maxUsers {
		u.known = make(map[int]*account)
	}
	d := &account{UID: strconv.Itoa(uid), TypeID: 1, Type: "User"}
	if uid == 0 {
		d.TypeID, d.Type = 2, "Admin"
	}
	d.Name = u.name(d.UID)
	u.known[uid] = d
	return d
}
