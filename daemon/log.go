//go:build linux

package daemon

// Keys of the log: every field of every line, but zerolog's own level, time,
// message and error.
const (
	keyAdded        = "added"
	keyAddress      = "address"
	keyBusy         = "ports_busy"
	keyCapabilities = "capabilities"
	keyFreed        = "ports_freed"
	keyCause        = "cause"
	keyChanges      = "changes"
	keyCode         = "code"
	keyDropped      = "dropped"
	keyDuration     = "duration_ms"
	keyFile         = "file"
	keyGrace        = "grace_ms"
	keyKeys         = "keys"
	keyKilled       = "killed"
	keyLeft         = "left"
	keyKind         = "kind"
	keyLevel        = "guarantee_level" // level is zerolog's
	keyMember       = "member"
	keyMode         = "mode"
	keyName         = "name"
	keyPID          = "pid"
	keyPath         = "path"
	keyReason       = "reason"
	keyRule         = "rule"
	keyRemoved      = "removed"
	keySession      = "session"
	keySessions     = "sessions"
	keySignal       = "signal"
	keySocket       = "socket"
	keySource       = "source"
	keyStrong       = "strong"
	keySuppressed   = "suppressed"
	keyTarget       = "target"
	keyUID          = "uid"
	keyUnload       = "unload"
	keyVerb         = "verb"
	keyVerdict      = "verdict"
	keyWhy          = "why"
)
