//go:build linux

package rules

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/enforcer/redact"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// Policy is the policy in force. It may be used from any goroutine.
type Policy struct {
	path    string // empty: this instance has no file
	must    bool   // the file was named by a user: it must exist
	started *policy.Policy
	breaker *enforcer.Breaker

	reloading sync.Mutex

	mu      sync.Mutex
	current *policy.Policy
	redact  func(argv []string) []string // by current
	loaded  time.Time
	refused string // why the current file was refused
	unarmed error  // why the kernel does not look for agents
}

// Load reads the policy of a file at a start; "": no file. must: a user named the file,
// so it must exist. An invalid file is refused: the user that starts the daemon can
// read why, and it would otherwise run with rules other than those that were written.
func Load(path string, must bool, c registry.Clock) (*Policy, error) {
	r := &Policy{path: path, must: must}
	p, err := r.read()
	if err != nil {
		return nil, err
	}
	r.started, r.loaded = p, time.Now().UTC()
	r.current, r.redact = p, redact.Remembering(p.Redact)
	r.breaker = enforcer.NewBreaker(p.Breaker.EndsPerMinute, c.Monotonic)
	return r, nil
}

func (r *Policy) Started() *policy.Policy { return r.started }

// Resume closes the breaker for all users, and reports whether it was open.
func (r *Policy) Resume() bool { return r.breaker.Resume() }

func (r *Policy) read() (*policy.Policy, error) {
	if r.path == "" {
		return policy.Default(), nil
	}
	f, err := system.OpenRootsFile(r.path) // it decides what a root daemon ends
	switch {
	case errors.Is(err, os.ErrNotExist) && !r.must:
		return policy.Default(), nil
	case err != nil:
		return nil, fmt.Errorf("policy %s: %w", r.path, err)
	}
	defer f.Close()
	return policy.Read(r.path, f)
}

// reload reads the file again. A refused one changes nothing, but is remembered; apply
// applies an accepted one.
func (r *Policy) reload(apply func(*policy.Policy)) error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	p, err := r.read()
	r.mu.Lock()
	if err != nil {
		r.refused = err.Error()
		r.mu.Unlock()
		return err
	}
	r.current, r.redact = p, redact.Remembering(p.Redact)
	r.loaded, r.refused = time.Now().UTC(), ""
	r.mu.Unlock()
	r.breaker.SetLimit(p.Breaker.EndsPerMinute)
	apply(p)
	return nil
}

// LogLevel is the least severe level that is logged; it is read at a start.
func (r *Policy) LogLevel() zerolog.Level {
	l, err := zerolog.ParseLevel(r.started.Daemon.LogLevel)
	if err != nil {
		return zerolog.InfoLevel // the policy has checked the word
	}
	return l
}

// Policy returns the one in force. It is never changed; a reload makes another.
func (r *Policy) Policy() *policy.Policy {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// Redact hides secrets in a command line, as the policy in force says. The result is
// shared and must not be changed.
func (r *Policy) Redact(argv []string) []string {
	r.mu.Lock()
	hide := r.redact
	r.mu.Unlock()
	return hide(argv)
}

func (r *Policy) Mode() string { return r.Policy().Mode }

// ModeOf is the mode for the sessions of a user: the policy's, but observe while the breaker is open
// for the user.
func (r *Policy) ModeOf(uid uint32) string {
	if r.breaker.Open(uid) {
		return policy.Default().Mode
	}
	return r.Mode()
}

// Enforced reports whether the ends of a user's sessions that rules and budgets ask for are carried
// out.
func (r *Policy) Enforced(uid uint32) bool { return r.ModeOf(uid) == "enforce" }

// Complete adds what the caller left out: the grace, and, where rules are enforced, the
// limits that the kernel enforces. Limits that user space judges (max_rss, idle) are
// read from the policy when they are judged, so that they are not taken for the
// caller's.
func (r *Policy) Complete(spec *tracer.SessionSpec, graced bool) {
	d := &r.Policy().Defaults
	if !graced {
		spec.Grace = d.Grace.Std()
	}
	if r.Enforced(spec.UID) {
		spec.MaxProcesses = cmp.Or(spec.MaxProcesses, uint32(d.MaxProcesses))
		spec.MaxLifetime = cmp.Or(spec.MaxLifetime, d.MaxLifetime.Std())
	}
}

// MayEnd requests the end of one session of a user for which no caller asked, and counts it. If it
// is not allowed, what would have ended is to be recorded; tripped means that this one opened
// the breaker.
func (r *Policy) MayEnd(uid uint32) (may, tripped bool) {
	if !r.Policy().Enforce() {
		return false, false
	}
	return r.breaker.Allow(uid)
}

func (r *Policy) Degraded() (why []string) {
	r.mu.Lock()
	refused, unarmed := r.refused, r.unarmed
	r.mu.Unlock()
	if unarmed != nil {
		why = append(why, "agent rules are not in force: "+unarmed.Error())
	}
	if refused != "" {
		why = append(why, "policy not applied: "+refused)
	}
	if b := r.BreakerState(); b.Open {
		why = append(why, display.Breaker(b)+
			`: none of their sessions is ended automatically until "lineage policy resume"`)
	}
	return why
}

func (r *Policy) BreakerState() (b api.Breaker) {
	for _, uid := range r.breaker.Opened() {
		b.Open, b.UIDs = true, append(b.UIDs, int(uid))
	}
	return b
}

func (r *Policy) Document() api.Policy {
	r.mu.Lock()
	p, loaded, refused := r.current, r.loaded, r.refused
	r.mu.Unlock()
	d := api.Policy{
		Head: api.NewHead("policy"), File: p.File(), Mode: r.Mode(), Loaded: &loaded, Items: []api.PolicyValue{},
		Breaker: r.BreakerState(), Refused: refused, NeedsRestart: p.RestartNeeded(r.started),
	}
	for _, v := range p.Values() {
		d.Items = append(d.Items, api.PolicyValue{Kind: "policy_value",
			Key: v.Key, Value: v.Value, Origin: v.Origin})
	}
	return d
}

// interpreters are the names of the files that "#!" lines name.
var interpreters = regexp.MustCompile(`^(node|nodejs|bun|deno|python[0-9.]*|pypy[0-9.]*|ruby[0-9.]*|perl[0-9.]*|(ba|da|z|k)?sh)$`)

// commLength is how much of a name the kernel keeps.
const commLength = 15

// script is the name under which the kernel saw the exec of a script that now runs: its
// interpreter has another comm since "#!/usr/bin/env" execed it, and got the script as
// a path after nothing but long options. "" if it runs no script.
func script(f *policy.Facts) string {
	if f == nil || !interpreters.MatchString(procfs.Base(f.Exe)) {
		return ""
	}
	for _, word := range f.Argv[min(1, len(f.Argv)):] {
		switch {
		case strings.HasPrefix(word, "--") && len(word) > 2:
		case strings.HasPrefix(word, "-") || !strings.Contains(word, "/"):
			return "" // this may be a program's text, or a module
		default:
			name := word[strings.LastIndexByte(word, '/')+1:]
			return name[:min(len(name), commLength)]
		}
	}
	return ""
}

// RanAs returns the agent rule that matches a running process by its comm, or by that
// of the script that it runs.
func RanAs(p *policy.Policy, f *policy.Facts) *policy.Agent {
	if r := p.Agent(f); r != nil {
		return r
	}
	name := script(f)
	if name == "" {
		return nil
	}
	as := *f
	as.Comm = name
	return p.Agent(&as)
}
