package policy

import (
	"regexp"
	"time"

	"github.com/lineage-ebpf/lineage/enforcer/redact"
)

// The tags of the fields are the policy's grammar, and its schema:
//
//	key    the name in the file
//	doc    what it is, in one line
//	one    the allowed words, separated by |
//	min, max, least  the range; least is that of a value that is not 0
//	form   an additional rule for a string: name, comm, exe, cgroup, user
//	list   "any": a single value is a list of one
//	need   the key must be given

// Policy is the effective policy: a file's values over the built-in ones. It never
// changes, and may be read from any goroutine.
type Policy struct {
	Version     int          `key:"version" min:"1" max:"1" need:"1" doc:"the policy format"`
	Mode        string       `key:"mode" one:"observe|enforce" doc:"observe: what rules and limits would end is only reported; enforce: it is ended"`
	Signals     string       `key:"signals" one:"any|session" doc:"session: a member may send signals that kill or stop only to its own session and those inside it; observe: others are recorded, enforce: they are refused"`
	Spare       string       `key:"spare" one:"auto|none|root" doc:"root: a signal that kills or stops the root of an agent rule's session, or an agent that marks name in it, is recorded or refused likewise if another member sends it; auto: where signals is session"`
	Defaults    Defaults     `key:"defaults" doc:"for every session, unless it is created with other values"`
	Agents      []Agent      `key:"agents" doc:"which processes open a session of their own; the first that matches"`
	Containers  []Container  `key:"containers" doc:"which containers, or commands that are put into running ones, open a session of their own; the first that matches"`
	Operators   []Operator   `key:"operators" doc:"what commands that are signed with an operator's SSH key may do; an operator without an entry may do nothing"`
	Keep        []Keeping    `key:"keep" doc:"members that may outlive their session"`
	Protect     []Protection `key:"protect" doc:"never adopted and never signalled on evidence weaker than a fork; added to the built-in list"`
	Brokers     Brokers      `key:"brokers" doc:"work that a member hands to another daemon"`
	Breaker     Breaker      `key:"breaker" doc:"how many automatic ends are allowed, by user"`
	Wait        Wait         `key:"wait" doc:"how long an end waits before its verdict"`
	Secrets     []Pattern    `key:"redact" doc:"RE2 on argv, its arguments joined by a space; with a group only the group is hidden; added to the built-in list"`
	Trace       string       `key:"trace" one:"accept|ignore" doc:"accept: the daemon reads TRACEPARENT, and nothing else, of the environment of an agent's children, and shows it as what the member claims"`
	SelfProtect bool         `key:"self_protect" doc:"refuse signals, ptrace and bpf(2) from members to the daemon; read at start only"`
	Daemon      Daemon       `key:"daemon" doc:"the daemon itself; read at start only"`

	file  string
	lines map[string]int // of the keys that are in the file
}

// Defaults are the limits of a session that is created without its own. 0: no limit.
type Defaults struct {
	Grace        Duration `key:"grace" max:"10m" doc:"from the first signal to SIGKILL; 0: SIGKILL at once"`
	MaxLifetime  Duration `key:"max_lifetime" least:"1s" max:"87600h" doc:"how long a session may live; 0: no limit"`
	MaxProcesses int      `key:"max_processes" max:"4194304" doc:"live members, nested sessions included; 0: no limit"`
	MaxRSS       Size     `key:"max_rss" least:"1MiB" max:"1PiB" doc:"the sum of the members' RSS; 0: no limit"`
	Idle         Duration `key:"idle" least:"1s" max:"87600h" doc:"end a session after this long with no new member and less CPU time than idle_cpu; 0: never"`
	IdleCPU      Duration `key:"idle_cpu" max:"24h" doc:"how much CPU time an idle session may use"`
	Limits       Limits   `key:"limits" doc:"held by the kernel, by a cgroup; in observe none"`
}

// Limits are held by the kernel, for all members of a session together. 0: no limit.
type Limits struct {
	Memory     Size `key:"memory" least:"1MiB" max:"1PiB" doc:"above it the kernel ends the largest process"`
	MemoryHigh Size `key:"memory_high" least:"1MiB" max:"1PiB" doc:"above it members are slowed down"`
	CPUs       CPUs `key:"cpus" least:"0.01" max:"4096" doc:"CPU time per second"`
	MaxTasks   int  `key:"max_tasks" max:"4194304" doc:"threads and processes; above it forks fail"`
	IOWeight   int  `key:"io_weight" max:"10000" doc:"share of block I/O; others have 100"`

	Leave string `key:"leave" one:"report|return" doc:"a member that leaves the cgroup is reported, or moved back, too, three times"`
}

// Brokers says how work that other daemons do is attributed.
type Brokers struct {
	Adopt  []string `key:"adopt" one:"env|unit|container|socket|cookie|sid" doc:"the evidence by which work is attributed; sid is the POSIX session, the process group and the cgroup"`
	End    string   `key:"end" one:"strong|all|none" doc:"which evidence is enough to end it with the session; none: it is only shown"`
	Shared []Shared `key:"shared" doc:"servers that several sessions use: they leave the session that started them"`
}

// Breaker is the circuit breaker for ends that nobody asked for, by user.
type Breaker struct {
	EndsPerMinute int `key:"ends_per_minute" min:"1" max:"100000" doc:"at this many of a user's sessions, automatic ends of the user's sessions stop"`
}

type Wait struct {
	Killed Duration `key:"killed" min:"100ms" max:"10m" doc:"after SIGKILL, before the verdict left"`
	Ports  Duration `key:"ports" max:"10m" doc:"for a port that was listened on to have no listener"`
}

// Daemon is what the daemon reads at its start.
type Daemon struct {
	Level     string   `key:"level" one:"auto|1|2|3|4" doc:"the guarantee level to use at most"`
	RingSize  Size     `key:"ring_size" form:"power" min:"64KiB" max:"1GiB" doc:"of the events' ring buffer, a power of two; counts twice in RSS"`
	SelfCheck Duration `key:"self_check" least:"1s" max:"8760h" doc:"how often a canary session is ended; 0: at start only"`
	Deaths    string   `key:"deaths" one:"off|on" doc:"on: for root, who killed processes in no session: 256 of a user"`
	LogLevel  string   `key:"log_level" one:"debug|info|warn|error" doc:"what is logged"`
	History   History  `key:"history" doc:"ended sessions on disk"`
	Audit     Audit    `key:"audit" doc:"the audit log"`
}

type History struct {
	MaxAge  Duration `key:"max_age" min:"1h" max:"87600h" doc:"how long ended sessions and events are kept on disk"`
	MaxSize Size     `key:"max_size" min:"16MiB" max:"1TiB" doc:"how large history.db may become, without its write-ahead log of up to 8 MiB; the oldest sessions and events are deleted first"`
}

type Audit struct {
	MaxSize Size `key:"max_size" min:"64KiB" max:"1TiB" doc:"how large one file may become"`
	Keep    int  `key:"keep" min:"1" max:"1000" doc:"how many files"`
}

// Default is the policy of a host that has no policy file.
func Default() *Policy {
	return &Policy{
		Version: 1,
		Mode:    "observe",
		Signals: "any",
		Spare:   "auto",
		Trace:   "ignore",
		Defaults: Defaults{
			Grace:   Duration(5 * time.Second),
			IdleCPU: Duration(time.Second),
			Limits:  Limits{Leave: "report"},
		},
		Protect: builtInProtection(),
		Brokers: Brokers{Adopt: []string{"env", "unit", "container", "socket",
			"cookie", "sid"}, End: "strong"},
		Breaker: Breaker{EndsPerMinute: 30},
		Wait:    Wait{Killed: Duration(10 * time.Second), Ports: Duration(5 * time.Second)},
		Daemon: Daemon{
			Level: "auto", RingSize: 8 << 20, SelfCheck: Duration(10 * time.Minute), Deaths: "off", LogLevel: "info",
			History: History{MaxAge: Duration(720 * time.Hour), MaxSize: 1 << 30},
			Audit:   Audit{MaxSize: 64 << 20, Keep: 8},
		},
		lines: map[string]int{},
	}
}

// builtInProtection is the part of the protect list that no file can shorten. It
// matches the resolved path, because a process can choose its comm.
func builtInProtection() []Protection {
	const reason = "the host depends on it"
	rule := func(name string, exe ...string) Protection {
		p := Protection{Name: name, Reason: reason}
		for _, e := range exe {
			p.Match.Exe = append(p.Match.Exe, mustGlob(e))
		}
		return p
	}
	return []Protection{
		rule("systemd", "/usr/lib/systemd/systemd*", "/lib/systemd/systemd*"),
		rule("sshd", "/usr/sbin/sshd", "/usr/lib/openssh/sshd-*", "/usr/libexec/openssh/sshd-*"),
		rule("dbus-daemon", "/usr/bin/dbus-daemon", "/usr/bin/dbus-broker*"),
		rule("dockerd", "/usr/bin/dockerd", "/usr/sbin/dockerd"),
		rule("containerd", "/usr/bin/containerd*", "/usr/sbin/containerd*"),
	}
}

// AcceptsTrace reports whether the trace context that a member claims is read.
func (p *Policy) AcceptsTrace() bool { return p.Trace == "accept" }

// Enforce reports whether the daemon may end what rules and budgets select.
func (p *Policy) Enforce() bool { return p.Mode == "enforce" }

// Guards reports whether sessions are guarded, see the key signals: all for which no rule says
// otherwise, and perhaps those of some rules, or these spare some of their processes.
func (p *Policy) Guards() (all, some bool) {
	all = p.Signals == "session"
	for _, r := range p.Openers() {
		t := p.Terms(r)
		some = some || t.Guarded || t.Spared
	}
	return all, some
}

// Unrefused is what to tell an operator whose policy refuses signals, on a kernel that cannot.
const Unrefused = `signals that leave a session, or are sent to a spared process, are only recorded: this kernel takes no program that refuses them (lineage doctor); "lineage run --signals session" does, from Linux 6.12 on`

func (p *Policy) Refuses() bool {
	all, some := p.Guards()
	return p.Enforce() && (all || some)
}

// Redact hides secrets in an argv: those that redact knows, and matches of the policy's
// own expressions.
func (p *Policy) Redact(argv []string) []string {
	own := make([]*regexp.Regexp, len(p.Secrets))
	for i, s := range p.Secrets {
		own[i] = s.re
	}
	return redact.Argv(argv, own...)
}

// File is the file that the policy was read from, empty if it is the built-in one.
func (p *Policy) File() string { return p.file }
