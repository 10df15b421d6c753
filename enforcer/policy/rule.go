package policy

import (
	"cmp"
	"time"
)

// Match selects processes. All of its keys must hold.
type Match struct {
	Comm   []string  `key:"comm" form:"comm" list:"any" doc:"the exact comm, at most 15 bytes"`
	Exe    []Glob    `key:"exe" list:"any" doc:"glob on the resolved path, ** crosses directories; the process must execute the file that the daemon finds there"`
	Argv   []Pattern `key:"argv" list:"any" doc:"RE2 on any one argument"`
	UID    []string  `key:"uid" form:"user" list:"any" doc:"name or number"`
	Cgroup []Glob    `key:"cgroup" list:"any" doc:"glob on the cgroup v2 path"`
	Parent *Match    `key:"parent" doc:"a match on the creator"`
}

// rule is an item of a list that has a name of its own.
type rule interface {
	place() *string // its path in the file, empty: built in
}

// placed is what every rule has.
type placed struct{ from string }

func (p *placed) place() *string { return &p.from }

// checked is a rule with conditions beyond its keys.
type checked interface {
	// check returns the key that is wrong, and why.
	check() (key string, w *wrong)
}

type Protection struct {
	Name   string `key:"name" form:"name" need:"1" doc:"unique in the list"`
	Match  Match  `key:"match" need:"1" doc:"all keys must hold; a list means any of"`
	Reason string `key:"reason" form:"text" need:"1" doc:"for people who read it later"`

	placed
}

// Agent is a rule for processes that open a session of their own.
type Agent struct {
	Name         string   `key:"name" form:"name" need:"1" doc:"unique in the list"`
	Enabled      bool     `key:"enabled" doc:"whether the rule is in force"`
	Match        Match    `key:"match" need:"1" doc:"all keys must hold; a list means any of; comm is needed"`
	Grace        Duration `key:"grace" max:"10m" doc:"as in defaults"`
	MaxLifetime  Duration `key:"max_lifetime" least:"1s" max:"87600h" doc:"as in defaults"`
	MaxProcesses int      `key:"max_processes" max:"4194304" doc:"as in defaults"`
	MaxRSS       Size     `key:"max_rss" least:"1MiB" max:"1PiB" doc:"as in defaults"`
	Idle         Duration `key:"idle" least:"1s" max:"87600h" doc:"as in defaults"`
	Signals      string   `key:"signals" one:"any|session" doc:"as at the top of the file"`
	Spare        string   `key:"spare" one:"auto|none|root" doc:"as at the top of the file"`
	OnRootExit   string   `key:"on_root_exit" one:"end|report" doc:"what happens to the leftovers when the root exits; default end"`
	Limits       Limits   `key:"limits" doc:"as in defaults"`

	placed
}

func (r *Agent) check() (string, *wrong) {
	if len(r.Match.Comm) == 0 {
		return "match", &wrong{"comm is missing", "the kernel looks for it at each exec; add comm: NAME"}
	}
	return "", nil
}

// Nests reports whether the rule also applies to processes inside a session.
func (r *Agent) Nests() bool { return r.Match.Parent != nil }

// Keeping is a rule for members that may outlive their session.
type Keeping struct {
	Name   string `key:"name" form:"name" need:"1" doc:"unique in the list"`
	Match  Match  `key:"match" need:"1" doc:"all keys must hold; exe is needed, as comm and argv are the member's to choose"`
	Reason string `key:"reason" form:"text" need:"1" doc:"for people who read it later"`
	Until  Until  `key:"until" need:"1" doc:"a date or an RFC 3339 time; after it the rule is void, and what it kept ends"`

	placed
}

func (r *Keeping) check() (string, *wrong) { return r.Match.needsExe() }

// Shared is a rule for servers that several sessions use.
type Shared struct {
	Name  string `key:"name" form:"name" need:"1" doc:"unique in the list"`
	Match Match  `key:"match" need:"1" doc:"all keys must hold; exe is needed, as comm and argv are the member's to choose"`
	End   string `key:"end" one:"last|never" doc:"last (default): with the last session of its uid that ran while it did; never"`

	placed
}

func (r *Shared) check() (string, *wrong) { return r.Match.needsExe() }

// needsExe refuses a match without exe, for rules that exempt a member from its
// session's end.
func (m *Match) needsExe() (string, *wrong) {
	if len(m.Exe) == 0 {
		return "match", &wrong{"exe is missing", "comm and argv are the member's to choose; add exe: /PATH"}
	}
	return "", nil
}

// Terms are the limits of a session. 0: no limit.
type Terms struct {
	Grace        time.Duration
	MaxLifetime  time.Duration
	MaxProcesses uint32
	MaxRSS       uint64 // bytes
	Idle         time.Duration
	Report       bool // leave the leftovers of a root that exits
	Guarded      bool // its members' signals stay inside
	Spared       bool // its members do not end its root
	Limits       Limits
}

// Terms returns those of an agent's sessions: what the rule sets, else the defaults.
func (p *Policy) Terms(r *Agent) Terms {
	d := &p.Defaults
	signals, spare := cmp.Or(r.Signals, p.Signals), cmp.Or(r.Spare, p.Spare)
	return Terms{
		Grace:        given(p, r, "grace", r.Grace, d.Grace).Std(),
		MaxLifetime:  given(p, r, "max_lifetime", r.MaxLifetime, d.MaxLifetime).Std(),
		MaxProcesses: uint32(given(p, r, "max_processes", r.MaxProcesses, d.MaxProcesses)),
		MaxRSS:       uint64(given(p, r, "max_rss", r.MaxRSS, d.MaxRSS)),
		Idle:         given(p, r, "idle", r.Idle, d.Idle).Std(),
		Report:       r.OnRootExit == "report",
		Guarded:      signals == "session",
		Spared:       spare == "root" || spare == "auto" && signals == "session",
		Limits:       given(p, r, "limits", r.Limits, d.Limits),
	}
}

// given is the value of a key if the rule has it, else the default.
func given[T any](p *Policy, r *Agent, key string, own, otherwise T) T {
	if p.lines[join(r.from, key)] > 0 {
		return own
	}
	return otherwise
}

// Agent returns the first enabled rule that matches, nil if none does.
func (p *Policy) Agent(f *Facts) *Agent {
	return first(p.Agents, func(r *Agent) bool { return r.Enabled && r.Match.matches(f, false) })
}

// Keeps returns the first keep rule that matches and is not void, nil if none does.
func (p *Policy) Keeps(f *Facts, now time.Time) *Keeping {
	return first(p.Keep, func(r *Keeping) bool { return now.Before(r.Until.Time()) && r.Match.matches(f, true) })
}

// SharedServer returns the first rule for shared servers that matches, nil if none does.
func (p *Policy) SharedServer(f *Facts) *Shared {
	return first(p.Brokers.Shared, func(r *Shared) bool { return r.Match.matches(f, true) })
}

// Lasts reports whether the server outlives every session.
func (r *Shared) Lasts() bool { return r.End == "never" }

func (p *Policy) SharedNamed(name string) *Shared {
	return first(p.Brokers.Shared, func(r *Shared) bool { return r.Name == name })
}

// Origin is FILE:LINE of a rule, or BuiltIn.
func (p *Policy) Origin(r rule) string { return p.origin(*r.place()) }
