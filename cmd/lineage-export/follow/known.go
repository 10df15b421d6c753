package follow

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// The bounds of what is known. Members decide how much there is of everything.
const (
	maxProcesses = 1 << 16 // that are alive
	maxDead      = 1 << 14 // for those that they created, and for the events that come after an exit
	maxEnded     = 1 << 12 // sessions, likewise
	maxText      = 8 << 20 // bytes of their programs; beyond: shortArgs of a command line, and of a path over shortExe its last word
	MaxArgs      = 1 << 10 // bytes of a command line
	shortArgs    = 1 << 6
	shortExe     = 1 << 8
	maxAncestry  = 64 // creators
)

// Source answers what events do not report.
type Source interface {
	// Session gives nil if the daemon does not know it, and an error if it has to be asked again.
	Session(id string) (*api.Session, error)
	// Hide takes the secrets out of an event.
	Hide(*api.Event)
}

// Known is what was read last of the sessions and the processes of one boot: an event has its own
// process and session whole, and refers to others. It is not safe for concurrent use.
type Known struct {
	Host *Host
	Boot string
	From Source

	sessions  map[string]*SessionInfo
	ended     []string // in the order of their ends, those that are still in sessions
	processes map[api.Ref]*known
	dead      []api.Ref // in the order of their exits, those that are still in processes
	text      int       // bytes
}

// known is what others show of a process. Processes share what they run.
type known struct {
	creator  api.Ref
	parent   api.Ref
	in       string // its session
	runs     *program
	started  int64 // ns; 0: not known
	exited   int64 // ns; 0: it lives
	uid      int   // -1: not known
	text     int   // that it has for itself
	children int   // that are in processes
}

type program struct {
	comm, exe, args string
	cut             bool
}

// NewKnown knows nothing yet.
func NewKnown(host *Host, boot string, from Source) *Known {
	return &Known{Host: host, Boot: boot, From: from, sessions: make(map[string]*SessionInfo),
		processes: make(map[api.Ref]*known)}
}

// Process is a process as it was read last, its arguments in one; nil: not known, or forgotten.
func (k *Known) Process(ref api.Ref) *api.Process {
	if k == nil || k.processes[ref] == nil {
		return nil
	}
	x := k.processes[ref]
	runs := x.runs
	p := &api.Process{Ref: ref, Comm: runs.comm, Exe: runs.exe, ArgvTruncated: runs.cut}
	p.Creator, p.Parent, p.Started, p.Exited = refOf(x.creator), refOf(x.parent), timeOf(x.started), timeOf(x.exited)
	if x.uid >= 0 {
		p.UID = new(x.uid)
	}
	if runs.args != "" {
		p.Argv = []string{runs.args}
	}
	return p
}

func refOf(r api.Ref) *api.Ref {
	if r.PID == 0 {
		return nil
	}
	return &r
}

func timeOf(ns int64) *time.Time {
	if ns == 0 {
		return nil
	}
	return new(time.Unix(0, ns).UTC())
}

// Ancestry is the creators of a process, the newest first.
func (k *Known) Ancestry(p *api.Process) (all []*api.Process) {
	for p.Creator != nil && len(all) < maxAncestry && p.Creator.StartNS <= p.StartNS {
		if p = k.Process(*p.Creator); p == nil {
			break
		}
		all = append(all, p)
	}
	return all
}

// Prime takes a line of a snapshot.
func (k *Known) Prime(e *api.Event) {
	k.From.Hide(e)
	switch {
	case e.Kind == "process" && e.Process != nil:
		k.remember(e.Process)
	case e.Subject != nil:
		_, _ = k.put(e.Subject) // what the daemon does not say is asked again
	}
}

// remember keeps what others show of a process.
func (k *Known) remember(p *api.Process) {
	before := k.processes[p.Ref]
	if before == nil && len(k.processes)-len(k.dead) >= maxProcesses {
		return
	}
	room, exe := MaxArgs, p.Exe
	if k.text > maxText {
		room = shortArgs
		if len(exe) > shortExe {
			exe = path.Base(exe)
		}
	}
	args, cut := CutArgs(strings.Join(p.Argv, " "), room)
	x := &known{in: p.Session, uid: -1}
	if p.Creator != nil {
		x.creator = *p.Creator
	}
	if p.Parent != nil {
		x.parent = *p.Parent
	}
	if p.UID != nil {
		x.uid = *p.UID
	}
	if p.Started != nil {
		x.started = p.Started.UnixNano()
	}
	if p.Exited != nil {
		x.exited = p.Exited.UnixNano()
	}
	c, runs := k.processes[x.creator], program{p.Comm, exe, args, cut || p.ArgvTruncated}
	switch {
	case before != nil && *before.runs == runs:
		x.runs, x.text = before.runs, before.text
	case c != nil && *c.runs == runs:
		x.runs = c.runs
	default:
		runs.args = strings.Clone(args) // the rest of it shall not stay in memory
		x.runs, x.text = &runs, len(exe)+len(args)
	}
	if before != nil {
		k.text -= before.text
		x.children, x.exited = before.children, max(x.exited, before.exited)
	} else if c != nil {
		c.children++
	}
	k.text += x.text
	k.processes[p.Ref] = x
	if x.exited != 0 && (before == nil || before.exited == 0) {
		k.bury(p.Ref)
	}
}

// bury forgets those that died first, and while there is room for the living not those that created others.
func (k *Known) bury(ref api.Ref) {
	k.dead = append(k.dead, ref)
	for n := 0; n < 2 && len(k.dead) > maxDead; n++ {
		ref = k.dead[0]
		k.dead = k.dead[1:]
		x := k.processes[ref]
		if x.children > 0 && len(k.processes) < maxProcesses {
			k.dead = append(k.dead, ref)
			continue
		}
		k.text -= x.text
		if c := k.processes[x.creator]; c != nil {
			c.children--
		}
		delete(k.processes, ref)
	}
}

// CutArgs cuts a command line, and reports whether it did.
func CutArgs(args string, room int) (string, bool) {
	if len(args) <= room {
		return args, false
	}
	return strings.ToValidUTF8(args[:room], ""), true
}

// Session is a session as it was read last, else as the daemon knows it. With an error the daemon did not
// answer: only its id is known until it is asked again.
func (k *Known) Session(id string) (*SessionInfo, error) {
	if s := k.sessions[id]; s != nil || id == "" {
		return cmp.Or(s, &SessionInfo{Unknown: true}), nil
	}
	d, err := k.From.Session(id)
	if d != nil {
		return k.put(d)
	}
	s := &SessionInfo{Session: api.Session{ID: id}, Unknown: true}
	if err == nil {
		k.sessions[id] = s
	}
	s.Span = k.own(id)
	return s, err
}

// put keeps a session, without its lists, which no record needs.
func (k *Known) put(d *api.Session) (s *SessionInfo, err error) {
	s = &SessionInfo{Session: *d}
	s.Ports, s.Delegated, s.Degraded, s.Token = nil, nil, nil, ""
	if d.Root != nil {
		s.Root = new(*d.Root)
		args, cut := CutArgs(strings.Join(d.Root.Argv, " "), MaxArgs)
		s.Root.FirstArgv, s.Root.Argv, s.Root.ArgvTruncated = nil, nil, cut || d.Root.ArgvTruncated
		if args != "" {
			s.Root.Argv = []string{args}
		}
		if k.processes[s.Root.Ref] == nil {
			k.remember(s.Root)
		}
	}
	if before := k.sessions[s.ID]; before != nil {
		if s.over = before.over; s.Rule == "" && before.Rule != "" { // the event was before the rule
			s.Name, s.Rule = before.Name, before.Rule
		}
	}
	k.sessions[s.ID] = s // first: a session may name itself through others
	if err = k.place(s); err != nil {
		delete(k.sessions, s.ID)
	}
	return s, err
}

// own is a trace of a session alone.
func (k *Known) own(id string) Span {
	return Span{Trace: Trace{TraceID: sessionTrace(k.Host.ID, k.Boot, id),
		SpanID: sessionSpan(k.Host.ID, k.Boot, id)}}
}

// place puts a session into the trace of its parent session, or of the session whose work it holds, else into one of its own.
func (k *Known) place(s *SessionInfo) error {
	s.Span = k.own(s.ID)
	above := cmp.Or(s.Parent, s.DelegatedBy)
	if above == "" || above == s.ID {
		return nil
	}
	outer, err := k.Session(above)
	s.Span.TraceID, s.Span.Parent = outer.Span.TraceID, outer.Span.SpanID
	if root := s.Root; root != nil && root.Creator != nil && s.Parent != "" && root.Trace == nil {
		s.Span.Parent = processSpan(k.Host.ID, k.Boot, *root.Creator)
	}
	return err
}

// Take remembers what an event reports, and gives the record of it. With an error the record lacks what the
// daemon did not say.
func (k *Known) Take(e *api.Event) (r *Record, err error) {
	k.From.Hide(e)
	kind := e.Type
	if e.Type == api.EventSession && e.State == api.StateEnded {
		kind = End
	}
	r = &Record{ID: eventID(k.Host.ID, k.Boot, kind, e), Kind: kind, Host: k.Host,
		Boot: k.Boot, Time: *e.Time, Event: e, Known: k}
	switch {
	case e.Type == api.EventLost:
		return r, nil
	case e.Subject != nil:
		r.Session, err = k.put(e.Subject)
	default:
		r.Session, err = k.Session(e.Session)
	}
	if kind == End {
		r.Session = k.end(r.Session, e)
	}
	if e.Process != nil {
		k.remember(e.Process)
	}
	return r, err
}

// end closes a session, also if its event has not the session: it was lost, or the daemon does not know it.
func (k *Known) end(was *SessionInfo, e *api.Event) *SessionInfo {
	s := new(*was)
	s.State, s.EndReason, s.Ended = e.State, cmp.Or(e.Reason, s.EndReason), cmp.Or(s.Ended, e.Time)
	k.sessions[s.ID] = s
	if s.over {
		return s
	}
	s.over = true
	for ref, x := range k.processes {
		if x.in == s.ID && x.exited == 0 { // its exit was lost
			x.exited = s.Ended.UnixNano()
			k.bury(ref)
		}
	}
	if k.ended = append(k.ended, s.ID); len(k.ended) > maxEnded {
		delete(k.sessions, k.ended[0])
		k.ended = k.ended[1:]
	}
	return s
}

// Live is the sessions whose end was not read.
func (k *Known) Live() (ids []string) {
	for id, s := range k.sessions {
		if !s.over {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Over reports whether the end of a session was read.
func (k *Known) Over(id string) bool {
	s := k.sessions[id]
	return s != nil && s.over
}

func (k *Known) about(kind Kind, id, session string, now time.Time) *Record {
	s, _ := k.Session(session) // what the daemon does not say now, it said before
	return &Record{ID: id, Kind: kind, Host: k.Host, Boot: k.Boot, Time: now, Session: s, Known: k}
}

// Orphaned is a record of what a session left behind or handed to others.
func (k *Known) Orphaned(session string, all []api.Orphan, now time.Time) *Record {
	words := []any{"orphans", k.Host.ID, k.Boot, session}
	for i := range all {
		words = append(words, all[i].Ref)
	}
	r := k.about(Orphans, DerivedID(words...), session, now)
	r.Orphans = all
	return r
}

// Runaway is a record of busy processes that an ended call has left.
func (k *Known) Runaway(c *api.CallLeft, now time.Time) *Record {
	r := k.about(Busy, DerivedID("busy", k.Host.ID, k.Boot, c.Session, c.Calls[0].Agent,
		c.Calls[0].ID, now.UnixNano()), c.Session, now)
	r.Call = c
	return r
}

// Changed is a record of a changed status of the daemon.
func (k *Known) Changed(before, status *api.Status, now time.Time) *Record {
	return &Record{ID: DerivedID("status", k.Host.ID, k.Boot, now.UnixNano()),
		Kind: Status, Host: k.Host, Boot: k.Boot,
		Time: now, Status: status, Before: before}
}
