package api

import (
	"context"
	"time"
)

// Client is what the command line and the terminal UI need from a daemon. Dial makes
// one over the unix socket. An error that the daemon sent is an *Error; any other error
// means that the daemon could not be reached.
type Client interface {
	Version(ctx context.Context) (*Version, error)
	Status(ctx context.Context) (*Status, error)
	// Sessions lists what the caller may read; state is live, ended or all
	// ("" is live), name filters if it is not empty.
	Sessions(ctx context.Context, state, name string) (*Sessions, error)
	Session(ctx context.Context, s string) (*Session, error)
	Create(ctx context.Context, req NewSession) (*Session, error)
	// Keep hands processes, with their descendants, over to a kept session.
	Keep(ctx context.Context, req KeepRequest) (*Session, error)
	// Tree gives the processes of a session; dead is ancestors or all.
	Tree(ctx context.Context, s, dead string) (*Tree, error)
	// Plan reports what an end would do now, without sending a signal.
	Plan(ctx context.Context, s string) (*Plan, error)
	End(ctx context.Context, s string, req EndRequest) (*Report, error)
	// Pause stops the members of a session; its warnings name those that have not stopped yet. Resume continues them.
	Pause(ctx context.Context, s string) (*Session, error)
	Resume(ctx context.Context, s string) (*Session, error)
	// Report waits up to wait (at most 60 s) for the end to be over. A report without a
	// Verdict: the end is not over yet.
	Report(ctx context.Context, s string, wait time.Duration) (*Report, error)
	// Command carries out a signed command, and CommandReceipt waits up to wait (at most 60 s) for each of its
	// ends to be over. CodeDenied: it is not genuine, not for this host, not allowed, late or a repeat; nothing
	// was sent.
	Command(ctx context.Context, c SignedCommand) (*CommandReply, error)
	CommandReceipt(ctx context.Context, id string, wait time.Duration) (*CommandReply, error)
	Process(ctx context.Context, ref string) (*Process, error)
	// Kill signals one member, named by PID@START_NS. CodeIdentity: the PID now belongs
	// to another process, and no signal was sent.
	Kill(ctx context.Context, ref string, req KillRequest) (*Killed, error)
	// PlanBranch and EndBranch are Plan and End for a member and everything that it
	// ever started; with a call, for what it started in that tool call, if no other call
	// may have started it, and not for the member. The report is of the new session that
	// these processes are moved to; Also has the other sessions that end with it.
	PlanBranch(ctx context.Context, ref, call string) (*Plan, error)
	EndBranch(ctx context.Context, ref string, req EndRequest) (*Report, error)
	// Orphans lists the orphans, leftovers and zombies of a session, and what its tool
	// calls have started and is alive; Leaks reports what it holds. For "": of every session that the caller may read.
	Orphans(ctx context.Context, session string) (*Orphans, error)
	Leaks(ctx context.Context) (*Leaks, error)
	Why(ctx context.Context, ref string) (*Why, error)
	// WhyPort finds the processes that listen on a port; proto is tcp or udp.
	// CodeNotFound: there are none.
	WhyPort(ctx context.Context, proto string, port int) (*Holders, error)
	// WhyPath finds the processes that have a file open or locked. CodeNotFound: there are none.
	WhyPath(ctx context.Context, f PathRef) (*Holders, error)
	// Events calls each for every line of the stream until each fails, the
	// stream ends or ctx is done.
	Events(ctx context.Context, q EventsQuery, each func(*Event) error) error
	// History lists ended sessions, newest first. The reply's Next, set in the query,
	// selects the next page.
	History(ctx context.Context, q HistoryQuery) (*Sessions, error)
	// Watch calls each for every line of the live picture until each fails, the
	// stream ends or ctx is done.
	Watch(ctx context.Context, each func(*Frame) error) error
	// Mark reports the beginning or the end of a tool call of the caller's agent.
	// CodeDenied: the caller is not a member, or the agent is not one of its
	// ancestors. CodeTooMany: too many marks. CodeNotFound: the end of a call that is
	// not open.
	Mark(ctx context.Context, req MarkRequest) (*Mark, error)
	// Policy gives the effective policy.
	Policy(ctx context.Context) (*Policy, error)
	// PolicyExplain gives the rules that match a process now.
	PolicyExplain(ctx context.Context, ref string) (*PolicyExplain, error)
	// PolicyReload makes the daemon read the policy file again. An invalid file has no
	// effect: CodeBadRequest.
	PolicyReload(ctx context.Context) (*Policy, error)
	// PolicyResume closes the circuit breaker.
	PolicyResume(ctx context.Context) (*Policy, error)
	// Halt halts or drains the host, or lifts that. When it returns the ends have begun. Only root may.
	Halt(ctx context.Context, req HaltRequest) (*Halted, error)
	Stop(ctx context.Context, unload, force bool) error
	Close() error
}

// EventsQuery selects the events that Events reports.
type EventsQuery struct {
	Session  string
	Types    []EventType // empty: all
	From     uint64      // first sequence number wanted
	Snapshot bool        // first send the processes that are alive now
	// Since is the time of the first event wanted, Until that of the last; zero:
	// from now on, without end.
	Since, Until time.Time
	Compressed   bool // by gzip on the way, if the daemon does not do that for many others
}

// PathRef names a file: by its absolute path and, so that its other names and
// other mount namespaces do not matter, by what stat(2) says of it. The daemon
// never touches the file.
type PathRef struct {
	Path          string
	Device, Inode uint64 // both 0: not known
}
