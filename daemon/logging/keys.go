//go:build linux

package logging

// Keys of the log: every field of every line, except zerolog's own level, time, message
// and error.
const (
	KeyAdded        = "added"
	KeyBusy         = "ports_busy"
	KeyCapabilities = "capabilities"
	KeyFreed        = "ports_freed"
	KeyCause        = "cause"
	KeyChanges      = "changes"
	KeyCode         = "code"
	KeyContainer    = "container"
	KeyDropped      = "dropped"
	KeyDuration     = "duration_ms"
	KeyFile         = "file"
	KeyGrace        = "grace_ms"
	KeyKeys         = "keys"
	KeyKilled       = "killed"
	KeyLeft         = "left"
	KeyKind         = "kind"
	KeyLevel        = "guarantee_level" // level is zerolog's
	KeyMember       = "member"
	KeyMode         = "mode"
	KeyName         = "name"
	KeyMethod       = "method"
	KeyPID          = "pid"
	KeyPanic        = "panic"
	KeyPath         = "path"
	KeyReason       = "reason"
	KeyRule         = "rule"
	KeyRemoved      = "removed"
	KeySession      = "session"
	KeySessions     = "sessions"
	KeySignal       = "signal"
	KeySocket       = "socket"
	KeySource       = "source"
	KeyStack        = "stack"
	KeyStrong       = "strong"
	KeySuppressed   = "suppressed"
	KeyTarget       = "target"
	KeyUID          = "uid"
	KeyUnload       = "unload"
	KeyVerb         = "verb"
	KeyVerdict      = "verdict"
	KeyWhy          = "why"
)
