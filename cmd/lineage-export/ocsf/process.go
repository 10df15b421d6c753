package ocsf

import (
	"os/user"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
)

// The bounds of the ancestry of an event, and of each command line in it and in a finding: a chain of
// processes that fork a successor and exit has no end.
const (
	maxAncestry  = 32
	maxShortArgs = 256 // bytes
)

// launch is the event of a fork, or of an exec. Its actor is the creator, or the process
// with the program that it ran before.
func (e *Encoder) launch(r *record.Record) *event {
	v := newEvent(r, launched, informational, r.ID, string(r.Kind), launchMessage(r))
	e.describe(v, r)
	if r.Kind == record.Exec {
		v.LaunchTypeID, v.LaunchType = 3, "Exec"
		v.Actor.Process = e.image(r, r.Was, &r.Process.Image.Ref)
		return v
	}
	v.LaunchTypeID, v.LaunchType = 2, "Fork"
	v.Actor.Process = e.image(r, r.Process.Image.Creator, r.Process.Image.CreatorRef)
	return v
}

// changed reports whether a process has another effective user since its last program began: it
// executed a set-user-ID program, or called setuid before.
func changed(r *record.Record) bool {
	return r.Was != nil && r.Was.UID != nil && r.Process.Image.UID != nil && *r.Was.UID != *r.Process.Image.UID
}

// setUser is the event of a process that has another user. Its actor is the process with the
// program and the user that it had before.
func (e *Encoder) setUser(r *record.Record) *event {
	v := newEvent(r, setUserID, informational, record.DerivedID("setuid", r.ID), "setuid", "")
	e.describe(v, r)
	v.Actor.Process = e.image(r, r.Was, nil)
	v.Message = setUserMessage(r, v)
	return v
}

// exit is the event of the exit of a process's last thread. OCSF wants the process as its own
// actor where it exits on its own, and where the origin of a signal is unknown.
func (e *Encoder) exit(r *record.Record) *event {
	v := newEvent(r, terminated, informational, r.ID, string(r.Kind), exitMessage(r))
	e.describe(v, r)
	v.Actor.Process = &process{entity: v.Process.entity}
	v.ExitCode = r.Process.ExitCode
	v.Unmapped.Lineage.Signal = r.Process.Signal
	e.killed(v, r)
	if d := r.Event.Process; d != nil {
		v.Unmapped.Lineage.CPUSeconds, v.Unmapped.Lineage.MaxRSS = d.CPUSeconds, d.RSSBytes
	}
	return v
}

// killed adds who sent the signal that a process died of.
func (e *Encoder) killed(v *event, r *record.Record) {
	k := r.Process.Killer
	if k == nil {
		return
	}
	s := &sender{Kind: k.Kind, Signal: k.Signal, Handled: k.Handled, Raised: k.Raised, Passed: k.Passed}
	v.Unmapped.Lineage.Sender = s
	by := k.Process
	if by == nil {
		return
	}
	s.Process, s.Session = &processRef{UID: record.ProcessUID(r, by.Ref), PID: by.PID, Name: by.Comm}, by.Session
	if by.Ref == r.Process.Image.Ref {
		return
	}
	v.Actor.Process = e.image(r, nil, &by.Ref)
	v.Actor.Process.Name = by.Comm
	if by.UID != nil {
		v.Actor.Process.User = e.users.user(*by.UID)
	}
}

// describe adds what every event of a process has.
func (e *Encoder) describe(v *event, r *record.Record) {
	p := r.Process
	v.Actor = &actor{AppUID: v.Metadata.CorrelationUID}
	if r.Session != nil {
		v.Actor.AppName = r.Session.Name
	}
	v.Process, v.Metadata.IsTruncated = e.process(r, p)
	x := &v.Unmapped.Lineage
	x.Creator, x.Cgroup = creatorOf(r, p.Image), p.Cgroup
	if p.Evidence != nil {
		x.Evidence, x.Confidence = p.Evidence.Kind, p.Evidence.Confidence
	}
	if p.Span.TraceID != (record.TraceID{}) {
		x.Trace = &trace{p.Span.TraceID.String(), p.Span.SpanID.String(), p.Trace != nil && p.Trace.TraceID == p.Span.TraceID.String()}
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

// process is a process with its parent and its ancestors, and whether something was cut.
func (e *Encoder) process(r *record.Record, p *record.Process) (d *process, cut bool) {
	d = e.image(r, p.Image, nil)
	d.CreatedTime, cut = millisOf(p.Created), p.Image.ArgvTruncated
	if r.Kind == record.Exec && r.Event.Process.Argv != nil { // the model may have less of it
		d.CmdLine, cut = strings.Join(r.Event.Process.Argv, " "), r.Event.Process.ArgvTruncated
	}
	d.Container = containerOf(p.Container)
	d.TerminatedTime = millisOf(p.Exited)
	ancestors := p.Image.Ancestry()
	if p.Parent != nil {
		d.Parent = e.image(r, imageOf(*p.Parent, ancestors), p.Parent)
	}
	if len(ancestors) > maxAncestry {
		ancestors, cut = ancestors[:maxAncestry], true
	}
	for _, a := range ancestors {
		x := entityOfImage(r, a)
		if x.shorten() {
			cut = true
		}
		d.Ancestry = append(d.Ancestry, x)
	}
	if len(ancestors) == 0 && p.Image.CreatorRef != nil {
		d.Ancestry = []entity{entityOf(r, *p.Image.CreatorRef)}
	}
	return d, cut
}

// shorten cuts a long command line, and reports whether it did.
func (d *entity) shorten() bool {
	if len(d.CmdLine) <= maxShortArgs {
		return false
	}
	d.CmdLine = strings.ToValidUTF8(d.CmdLine[:maxShortArgs], "")
	return true
}

// imageOf finds a process among images; nil: it is not among them.
func imageOf(ref api.Ref, among []*record.Image) *record.Image {
	for _, i := range among {
		if i.Ref == ref {
			return i
		}
	}
	return nil
}

// creatorOf is the process that forked the process of i; nil: not known.
func creatorOf(r *record.Record, i *record.Image) *processRef {
	switch {
	case i.Creator != nil:
		return refOf(r, i.Creator.Ref, i.Creator.Comm)
	case i.CreatorRef != nil:
		return refOf(r, *i.CreatorRef, "")
	}
	return nil
}

func refOf(r *record.Record, p api.Ref, comm string) *processRef {
	return &processRef{record.ProcessUID(r, p), p.PID, comm}
}

// image is a process that ran a program; if the program is not known, the process alone. Nil:
// the process is not known either.
func (e *Encoder) image(r *record.Record, i *record.Image, ref *api.Ref) *process {
	if i == nil {
		if ref == nil {
			return nil
		}
		return &process{entity: entityOf(r, *ref)}
	}
	d := &process{entity: entityOfImage(r, i)}
	if i.Exe != "" {
		d.File = &file{Name: path.Base(i.Exe), Path: i.Exe, TypeID: 1, Type: "Regular File"}
	}
	if i.UID != nil {
		d.User = e.users.user(*i.UID)
	}
	return d
}

func entityOfImage(r *record.Record, i *record.Image) entity {
	d := entityOf(r, i.Ref)
	d.Name, d.Path, d.CmdLine = i.Comm, i.Exe, strings.Join(i.Argv, " ")
	if i.BeganNS >= uint64(i.StartNS) && i.StartNS != 0 { // both of one clock
		d.CreatedTime = millisOf(i.Began.Add(-time.Duration(i.BeganNS - uint64(i.StartNS))))
	}
	return d
}

func entityOf(r *record.Record, p api.Ref) entity {
	return entity{UID: record.ProcessUID(r, p), PID: p.PID}
}

// millisOf is 0 for a time that is not known.
func millisOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return millis(t)
}

func number(n int) string { return strconv.Itoa(n) }

// maxUsers bounds the users whose names are remembered.
const maxUsers = 1024

// users remembers the users of the host.
type users struct {
	name  func(uid string) string // empty: the host has none
	known map[int]*account
}

// nameOnHost is the name of a user in the host's list.
func nameOnHost(uid string) string {
	u, err := user.LookupId(uid)
	if err != nil {
		return ""
	}
	return u.Username
}

// user describes a user.
func (u *users) user(uid int) *account {
	if d := u.known[uid]; d != nil {
		return d
	}
	if u.known == nil || len(u.known) >= maxUsers {
		u.known = make(map[int]*account)
	}
	d := &account{UID: number(uid), TypeID: 1, Type: "User"}
	if uid == 0 {
		d.TypeID, d.Type = 2, "Admin"
	}
	d.Name = u.name(d.UID)
	u.known[uid] = d
	return d
}
