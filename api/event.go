package api

// EventType is what an event reports.
type EventType string

// The types of events. [Event] says which fields each has.
const (
	EventFork     EventType = "fork"
	EventExec     EventType = "exec"
	EventExit     EventType = "exit"
	EventReparent EventType = "reparent" // its parent has died, and another process is its parent now
	EventReaped   EventType = "reaped"   // its parent has waited for it
	EventSession  EventType = "session"  // it began, or its state changed
	EventListen   EventType = "listen"
	EventUnlisten EventType = "unlisten"
	EventLost     EventType = "lost"  // events are missing
	EventMark     EventType = "mark"  // an agent's tool call began or is over
	EventTrace    EventType = "trace" // a process was started in a trace; without one: it is an agent's hook, and of no tool call
	EventStop     EventType = "stop"  // it was sent a signal that stops it
	EventContinue EventType = "continue"
	EventCrossing EventType = "crossing" // a signal of it left its guarded session, or was refused
	EventMoved    EventType = "moved"    // it came into another cgroup, where its session has one
)

// EventTypes are all types of events.
var EventTypes = []EventType{
	EventFork,
	EventExec,
	EventExit,
	EventReparent,
	EventReaped,
	EventSession,
	EventListen,
	EventUnlisten,
	EventLost,
	EventMark,
	EventTrace,
	EventStop,
	EventContinue,
	EventCrossing,
	EventMoved,
}

// TypeNames are types of events as text.
func TypeNames(types []EventType) []string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	return names
}
