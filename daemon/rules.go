//go:build linux

package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/instance"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// rules is the policy in force. It may be used from any goroutine.
type rules struct {
	path    string // empty: this instance has no file
	must    bool   // somebody named the file: it has to be there
	started *policy.Policy
	breaker *enforcer.Breaker
	clock   registry.Clock

	reloading sync.Mutex

	mu      sync.Mutex
	current *policy.Policy
	loaded  time.Time
	refused string          // why the file as it is was not taken
	unarmed string          // why the kernel does not look for agents
	keeps   map[string]bool // keep rules that have matched, by name
}

// loadRules reads the policy at a start. What is wrong with it is refused: who
// starts the daemon is there to read why, and would else run with rules that
// are not those that were written.
func loadRules(i instance.Instance, o Options, c registry.Clock) (*rules, error) {
	r := rulesOf(i, o, c)
	p, err := r.read()
	if err != nil {
		return nil, err
	}
	r.started, r.current, r.loaded = p, p, time.Now().UTC()
	r.breaker = enforcer.NewBreaker(p.Breaker.EndsPerMinute, c.Monotonic)
	return r, nil
}

// rulesOf says where an instance has its policy: the host's is in /etc.
func rulesOf(i instance.Instance, o Options, c registry.Clock) *rules {
	r := &rules{path: o.Policy, must: o.Policy != "", clock: c}
	if r.path == "" && i.Socket == api.DefaultSocket {
		r.path = policy.DefaultFile
	}
	return r
}

// read gives the policy as the file has it now.
func (r *rules) read() (*policy.Policy, error) {
	if r.path == "" {
		return policy.Default(), nil
	}
	// A FIFO there must not stop the daemon.
	f, err := os.OpenFile(r.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, os.ErrNotExist) && !r.must:
		return policy.Default(), nil
	case err != nil:
		return nil, fmt.Errorf("open policy: %w", err)
	}
	defer f.Close()
	if err := trusted(f); err != nil {
		return nil, fmt.Errorf("policy %s: %w", r.path, err)
	}
	return policy.Read(r.path, f)
}

// ours reports that the owner of a file is the daemon's own user, which is root
// except in tests, or root.
func ours(owner uint32) bool { return owner == 0 || owner == uint32(os.Geteuid()) }

// trusted refuses a file that a user other than root could have written: it says
// what a root daemon ends.
func trusted(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("look at it: %w", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("it is no regular file")
	case !ours(st.Uid):
		return fmt.Errorf("it belongs to uid %d; run chown root on it", st.Uid)
	case st.Mode&0o022 != 0:
		return errors.New("others than root may write it; run chmod go-w on it")
	}
	return nil
}

// reload reads the file again. One that is refused changes nothing, but is
// remembered; apply carries out one that is taken.
func (r *rules) reload(apply func(*policy.Policy)) error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	p, err := r.read()
	r.mu.Lock()
	if err != nil {
		r.refused = err.Error()
		r.mu.Unlock()
		return err
	}
	r.current, r.loaded, r.refused = p, time.Now().UTC(), ""
	r.mu.Unlock()
	r.breaker.SetLimit(p.Breaker.EndsPerMinute)
	apply(p)
	return nil
}

// logLevel is what is logged; read at a start.
func (r *rules) logLevel() zerolog.Level {
	l, err := zerolog.ParseLevel(r.started.Daemon.LogLevel)
	if err != nil {
		return zerolog.InfoLevel // the words are the policy's own
	}
	return l
}

// policy gives what is in force. It is not changed; a reload gives another.
func (r *rules) policy() *policy.Policy {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// mode is the policy's, but observe while the breaker is open.
func (r *rules) mode() string {
	if _, open := r.breaker.Open(); open {
		return policy.Default().Mode
	}
	return r.policy().Mode
}

// enforced reports whether what rules and budgets demand is done.
func (r *rules) enforced() bool { return r.mode() == "enforce" }

// complete gives a session what nobody asked for: the grace, and, where rules
// are enforced, the limits that the kernel carries out by itself. Those that
// user space judges (max_rss, idle) are read from the policy when they are
// judged, so that they are not taken for somebody's wish.
func (r *rules) complete(spec *tracer.SessionSpec, graced bool) {
	d := &r.policy().Defaults
	if !graced {
		spec.Grace = d.Grace.Std()
	}
	if r.enforced() {
		spec.MaxProcesses = cmp.Or(spec.MaxProcesses, uint32(d.MaxProcesses))
		spec.MaxLifetime = cmp.Or(spec.MaxLifetime, d.MaxLifetime.Std())
	}
}

// mayEnd asks for one end that nobody asked for by name, and counts it. If it
// may not be, what would have ended is to be recorded; tripped tells that this
// one opened the breaker.
func (r *rules) mayEnd() (may, tripped bool) {
	if !r.policy().Enforce() {
		return false, false
	}
	return r.breaker.Allow()
}

// armed notes whether the kernel looks for the agents of the rules.
func (r *rules) armed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unarmed = ""
	if err != nil {
		r.unarmed = err.Error()
	}
}

// matched notes that a keep rule has.
func (r *rules) matched(keep string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keeps == nil {
		r.keeps = make(map[string]bool)
	}
	r.keeps[keep] = true
}

// keepUnmatched names the keep rules that never have: misspelt, or not needed.
func (r *rules) keepUnmatched() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.current.Keep {
		if name := r.current.Keep[i].Name; !r.keeps[name] {
			names = append(names, name)
		}
	}
	return names
}

// degraded says what people must know of the rules.
func (r *rules) degraded() (why []string) {
	r.mu.Lock()
	refused, unarmed := r.refused, r.unarmed
	r.mu.Unlock()
	if unarmed != "" {
		why = append(why, "agent rules are not in force: "+unarmed)
	}
	if refused != "" {
		why = append(why, "the policy file was not taken: "+refused)
	}
	if _, open := r.breaker.Open(); open {
		why = append(why, `the circuit breaker is open: the daemon ends nothing by itself until "lineage policy resume"`)
	}
	return why
}

func (r *rules) breakerState() api.Breaker {
	since, open := r.breaker.Open()
	if !open {
		return api.Breaker{}
	}
	ago := r.clock.Monotonic() - since
	return api.Breaker{Open: true, Since: r.clock.Wall(r.clock.Boottime() - uint64(ago))}
}

// document is the effective policy on the wire.
func (r *rules) document() api.Policy {
	r.mu.Lock()
	p, loaded, refused := r.current, r.loaded, r.refused
	r.mu.Unlock()
	d := api.Policy{
		Head: head("policy"), File: p.File(), Mode: r.mode(), Loaded: &loaded, Items: []api.PolicyValue{},
		Breaker: r.breakerState(), Refused: refused, NeedsRestart: p.RestartNeeded(r.started),
	}
	for _, v := range p.Values() {
		d.Items = append(d.Items, api.PolicyValue{Kind: "policy_value", Key: v.Key, Value: v.Value, Origin: v.Origin})
	}
	return d
}

// start takes the keys that are read at a start into the options. What the
// command line says comes first.
func (r *rules) start(o *Options) {
	if o.Level == 0 {
		o.Level = slices.Index([]string{"auto", "1", "2", "3", "4"}, r.started.Daemon.Level)
	}
}
