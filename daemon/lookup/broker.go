package lookup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"regexp"
	"slices"
	"strings"
)

// BrokerKind is a program that starts work for others.
type BrokerKind struct {
	Name string
	// Servers are the file names of the parents of its work; what a server forks is a
	// member's only if the member asked for it.
	Servers []string
	// Before are the names of the files that a server's child may run before it execs
	// the work.
	Before []string
	// Later: it starts the work at some later time, not when asked.
	Later bool
	// Forks: where no server runs, the client forks one.
	Forks bool
	// Shared: its server outlives the clients, and serves those of several sessions.
	Shared bool
	// Relays: the client's exit code is that of the work. Otherwise it shows whether
	// the broker accepted the work.
	Relays bool
}

// client is what members run to ask a broker. This table is all that is known of
// brokers: a new one needs one more entry.
type client struct {
	kind  BrokerKind
	names []string // of its file
	// verbs are the words of a command line that ask for work; none: each does.
	verbs []string
	// idle are the options with which the client asks for nothing.
	idle []string
	// takes are the options before the verb, or before the work, that have a value of
	// their own.
	takes []string
	// server are options whose value selects a server.
	server []string
	// unit and container are options whose value names the unit or container.
	unit, container string
	// serves is an option of the server itself, alone one of a client that asks no server; "": none.
	serves, alone string
}

var clients = []client{{
	kind: BrokerKind{Name: "tmux", Servers: []string{"tmux"},
		Before: []string{"utempter"}, Forks: true},
	names: []string{"tmux"},
	verbs: []string{"new-session", "new", "new-window", "neww", "split-window",
		"splitw", "respawn-pane", "respawnp",
		"respawn-window", "respawnw", "run-shell", "run", "if-shell", "if", "send-keys",
		"send", "display-popup", "popup", "pipe-pane", "pipep"},
	takes:  []string{"-c", "-f", "-L", "-S", "-T"},
	server: []string{"-L", "-S"},
}, {
	kind: BrokerKind{Name: "screen", Servers: []string{"screen"},
		Before: []string{"utempter"}, Forks: true},
	names: []string{"screen"},
	idle:  []string{"-ls", "-list", "-wipe", "-v", "-r", "-x"},
}, {
	kind: BrokerKind{Name: "systemd", Servers: []string{"systemd"},
		Before: []string{"systemd-executor"}},
	names: []string{"systemd-run"},
	unit:  "--unit",
	idle:  []string{"--scope", "--help", "-h", "--version"}, // a scope is entered by systemd-run itself
	takes: []string{"-H", "--host", "-M", "--machine", "-u", "--unit", "-p",
		"--property", "-E", "--setenv", "--description",
		"--slice", "--service-type", "--uid", "--gid", "--nice", "--working-directory",
		"--on-active", "--on-boot", "--on-startup",
		"--on-unit-active", "--on-unit-inactive", "--on-calendar", "--path-property",
		"--socket-property", "--timer-property"},
}, {
	kind:  BrokerKind{Name: "atd", Servers: []string{"atd"}, Later: true},
	names: []string{"at", "batch"},
	idle:  []string{"-l", "-c", "-d", "-r", "-V"},
	takes: []string{"-q", "-f", "-t"},
}, {
	kind:  BrokerKind{Name: "cron", Servers: []string{"cron", "crond"}, Later: true},
	names: []string{"crontab"},
	idle:  []string{"-l", "-r"},
	takes: []string{"-u"},
}, {
	kind: BrokerKind{Name: "docker", Servers: []string{"containerd-shim-runc-v2",
		"containerd-shim-runc-v1", "containerd-shim"},
		// "/" is the file of runc's own process: a detached mount of its binary.
		Before: []string{"runc", "runc_cloned", "crun", "/"}, Relays: true},
	names: []string{"docker"},
	verbs: []string{"run", "start", "restart", "create", "build", "compose", "container run", "container start",
		"container restart", "container create"},
	takes: []string{"-c", "--context", "--config", "-H", "--host", "-l", "--log-level",
		"--tlscacert", "--tlscert", "--tlskey"},
	container: "--name",
}, {
	kind:  BrokerKind{Name: "sshd", Servers: []string{"sshd", "sshd-session"}, Relays: true},
	names: []string{"ssh"},
	idle:  []string{"-V", "-G", "-Q"},
}, {
	// On a terminal a server that outlives it runs its tool calls, those of the user's other terminals too. None is
	// attributed: a request is only reported.
	kind:  BrokerKind{Name: "codex", Shared: true, Relays: true},
	names: []string{"codex"}, serves: "--managed-daemon", alone: "--no-daemon",
	idle: []string{
		"exec", "e", "review", "login", "logout", "mcp", "plugin", "app-server", "remote-control", "completion",
		"update", "doctor", "sandbox", "debug", "apply", "a", "queue", "archive", "delete", "unarchive", "cloud",
		"exec-server", "features", "help", "--help", "-h", "--version", "-V",
	},
	takes: []string{"-c", "--config", "--enable", "--disable", "--remote", "--remote-auth-token-env",
		"-i", "--image", "-m", "--model", "--local-provider", "-p", "--profile", "-s", "--sandbox", "-C", "--cd",
		"--add-dir", "-a", "--ask-for-approval"},
}}

// BrokerRequest is what a command line asks a broker for.
type BrokerRequest struct {
	Kind      *BrokerKind
	Server    string // as the command line names it
	Unit      string // as the command line names it, with its suffix
	Container string // as the command line names it
	// NewContainer: it makes the container that it names. Otherwise the container may
	// belong to others too.
	NewContainer bool
	// Serves: it is the server itself. What clients ask of it is not handed to another session.
	Serves bool `json:"-"`
	// Command is the sum of a command that is to be put into the container; "": none.
	Command string `json:",omitempty"`
}

// execTakes are the options of docker's exec that have a value of their own.
var execTakes = []string{"-e", "-u", "-w", "--detach-keys", "--env", "--env-file", "--user", "--workdir"}

// maxWords bounds how much of a command line is looked at.
const maxWords = 256

// IsBrokerClient reports whether a program of that file may ask a broker.
func IsBrokerClient(exe []byte) bool {
	return byName[string(exe[bytes.LastIndexByte(exe, '/')+1:])] != nil
}

var byName = func() map[string]*client {
	all := make(map[string]*client)
	for i := range clients {
		for _, name := range clients[i].names {
			all[name] = &clients[i]
		}
	}
	return all
}()

// BrokerRequestOf reads the command line of a program, whose file is exe. The caller chooses
// its words: they are a claim, not evidence.
func BrokerRequestOf(exe string, argv []string) (e BrokerRequest, ok bool) {
	c := byName[path.Base(exe)]
	if c == nil || len(argv) == 0 || slices.Index(argv, exe) > 0 { // a script only starts the client
		return e, false
	}
	if container, command := c.exec(argv[1:]); len(command) > 0 {
		return BrokerRequest{Kind: &c.kind, Container: container,
			Command: CommandOf(command[0], command)}, true
	}
	words := argv[1:min(len(argv), maxWords)]
	e = BrokerRequest{Kind: &c.kind}
	if e.Serves = c.serves != "" && slices.Contains(words, c.serves); e.Serves {
		return e, true
	}
	if !c.asks(words) || c.alone != "" && slices.Contains(words, c.alone) {
		return BrokerRequest{}, false
	}
	for _, name := range c.server {
		if value := option(words, name, ""); value != "" {
			e.Server = name + " " + value
		}
	}
	if c.unit != "" {
		if e.Unit = option(words, c.unit, "-u"); e.Unit != "" && !strings.HasSuffix(e.Unit, ".service") {
			e.Unit += ".service"
		}
	}
	if verb := c.verb(words); c.container != "" && (verb == "run" || verb == "container run") {
		behind := words[slices.Index(words, "run")+1:]
		e.Container, e.NewContainer = option(behind, c.container, ""), true
	}
	if c.kind.Name == "sshd" && !localhost(words) {
		return BrokerRequest{}, false
	}
	return e, true
}

// Elsewhere reports that a server with this command line, that of the client which
// started it, is not the one that the request names.
func (e *BrokerRequest) Elsewhere(exe string, argv []string) bool {
	began, ok := BrokerRequestOf(exe, argv)
	option, _, _ := strings.Cut(e.Server, " ")
	return ok && e.Server != "" && began.Server != e.Server &&
		strings.HasPrefix(began.Server, option+" ")
}

// asks reports whether the words ask for work at all. tmux without a word makes a
// session.
func (c *client) asks(words []string) bool {
	if len(c.verbs) > 0 {
		verb := c.verb(words)
		return slices.Contains(c.verbs, verb) || verb == "" && c.kind.Name == "tmux"
	}
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case slices.Contains(c.idle, w):
			return false
		case slices.Contains(c.takes, w):
			i++
		case !strings.HasPrefix(w, "-"):
			return true // what follows belongs to the command to run
		}
	}
	return true
}

// verb is the first word that is neither an option nor an option's value; after
// "container" the next word belongs to it.
func (c *client) verb(words []string) string {
	words = behind(words, c.takes)
	if len(words) > 1 && words[0] == "container" {
		return "container " + words[1]
	}
	return strings.Join(words[:min(len(words), 1)], "")
}

// exec reads the command line of docker's client: the container, as it is named, and the
// command that exec has to run in it.
func (c *client) exec(words []string) (container string, command []string) {
	words = behind(words, c.takes)
	if len(words) > 0 && words[0] == "container" {
		words = words[1:]
	}
	if c.kind.Name != "docker" || len(words) == 0 || words[0] != "exec" {
		return "", nil
	}
	if words = behind(words[1:], execTakes); len(words) < 2 || words[0] == "" {
		return "", nil
	}
	return words[0], words[1:]
}

// behind returns what follows the options with which words begin. Those that takes lists
// have a value of their own.
func behind(words, takes []string) []string {
	for len(words) > 0 && len(words[0]) > 1 && words[0][0] == '-' {
		w := words[0]
		if words = words[1:]; w == "--" {
			break
		}
		value := slices.Contains(takes, w)
		for i := 1; i < len(w) && w[1] != '-' && !value; i++ {
			if slices.Contains(takes, "-"+w[i:i+1]) { // the value of a letter is the rest of its word, unless that is empty
				value = i == len(w)-1
				break
			}
		}
		if value && len(words) > 0 {
			words = words[1:]
		}
	}
	return words
}

// CommandOf names a command line: only sums are compared, so that none is kept. file is
// what was executed. Of a script, argv begins with its interpreter, and one option of that.
func CommandOf(file string, argv []string) string {
	name := path.Base(file)
	for i := range argv[:min(len(argv), 3)] {
		if path.Base(argv[i]) == name {
			sum := sha256.Sum256([]byte(name + "\x00" + strings.Join(argv[i+1:], "\x00")))
			return hex.EncodeToString(sum[:])
		}
	}
	return ""
}

// option returns the value of an option, in either way to write it. Two words in a row
// that are not options end the options, whichever of them take a value: what follows
// belongs to the command to run.
func option(words []string, long, short string) string {
	free := 0
	for i, w := range words {
		if value, ok := strings.CutPrefix(w, long+"="); ok {
			return value
		}
		if (w == long || short != "" && w == short) && i+1 < len(words) {
			return words[i+1]
		}
		if free++; strings.HasPrefix(w, "-") {
			free = 0
		}
		if w == "--" || free == 2 {
			return ""
		}
	}
	return ""
}

// localHost is this host by name or number, with or without a user.
var localHost = regexp.MustCompile(`^(ssh://)?([^@]*@)?(localhost|127\.[0-9.]+|::1|\[::1\])(:[0-9]+)?$`)

func localhost(words []string) bool { return slices.ContainsFunc(words, localHost.MatchString) }
