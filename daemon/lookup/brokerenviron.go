package lookup

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/enforcer/redact"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// Sum is the SHA-256 of a value; the zero Sum is no value. Only sums are compared, so
// that no environment is ever kept.
type Sum [sha256.Size]byte

// Cookie is a variable that a known program marks its processes with.
type Cookie struct {
	Name  string
	Value Sum
}

func SumOf(value string) Sum { return sha256.Sum256([]byte(value)) }

// session is the session's id, which `lineage run` gives to its members too.
const session = "LINEAGE_SESSION"

// cookies are set by GitHub's runner, Jenkins and Claude Code.
var cookies = []string{"RUNNER_TRACKING_ID", "BUILD_ID",
	"JENKINS_NODE_COOKIE", "CLAUDE_CODE_SESSION_ID"}

// BrokerMarks are what an environment shows about the origin of a process.
type BrokerMarks struct {
	Token   Sum
	Session Sum // of the id that it has
	Cookies []Cookie
	// LocalSSH: it serves an ssh connection of this host to itself.
	LocalSSH bool
}

// BrokerMarksOf reads an environment as /proc/PID/environ has it. Of a duplicate variable the
// first counts, as for getenv(3). An empty variable counts as not set.
func BrokerMarksOf(environ []byte) (m BrokerMarks) {
	seen := make(map[string]bool)
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		name, value, ok := bytes.Cut(variable, []byte{'='})
		if !ok || len(value) == 0 || seen[string(name)] {
			continue
		}
		switch {
		case string(name) == redact.TokenName:
			m.Token = sha256.Sum256(value)
		case string(name) == session:
			m.Session = sha256.Sum256(value)
		case string(name) == "SSH_CONNECTION":
			m.LocalSSH = local(value)
		case slices.Contains(cookies, string(name)):
			m.Cookies = append(m.Cookies, Cookie{string(name), sha256.Sum256(value)})
		default:
			continue
		}
		seen[string(name)] = true
	}
	return m
}

// local reads SSH_CONNECTION: the client's address and port, then the server's.
func local(connection []byte) bool {
	f := bytes.Fields(connection)
	return len(f) == 4 && bytes.Equal(f[0], f[2])
}

// JobToken reads the script that at(1) makes of a job: it begins with the environment
// of the process that asked for it, one variable per line.
func JobToken(script []byte) Sum {
	for line := range bytes.Lines(script) {
		rest, ok := bytes.CutPrefix(line, []byte(redact.TokenName+"="))
		if value, _, ends := bytes.Cut(rest, []byte{';'}); ok && ends && len(value) > 0 {
			return sha256.Sum256(value)
		}
	}
	return Sum{}
}

// ArgvOf is the command line of a process, without the token that marks
// delegated work.
func ArgvOf(proc procfs.FS, pid uint32) (argv []string, truncated bool) {
	b, truncated := proc.Cmdline(pid)
	redact.Token(b)
	return procfs.SplitArgv(b), truncated
}

// BrokerPlace is where a cgroup puts a process. The path is only a hint unless a member asked
// for that place: a process that may make cgroups may name one as it likes.
type BrokerPlace struct {
	Unit string // the innermost systemd unit, "" if none
	// User is the uid whose service manager runs the unit, -1: the host's.
	User int
}

// BrokerPlaceOf reads /proc/PID/cgroup. Where cgroup v1 is in use, systemd's own hierarchy
// may show what v2 does not: either line will do.
func BrokerPlaceOf(cgroups string) BrokerPlace {
	p := BrokerPlace{User: -1}
	for line := range strings.Lines(cgroups) {
		_, rest, _ := strings.Cut(line, ":")
		controllers, path, ok := strings.Cut(strings.TrimSuffix(rest, "\n"), ":")
		if !ok {
			continue
		}
		if p.Unit == "" && (controllers == "" || controllers == "name=systemd") {
			p.Unit, p.User = unitOf(path)
		}
	}
	return p
}

// unitOf returns the innermost unit that runs something. user@UID.service is the
// manager of a user: it started everything below it.
func unitOf(path string) (unit string, user int) {
	user = -1
	for part := range strings.SplitSeq(path, "/") {
		manager, ok := strings.CutPrefix(part, "user@")
		if uid, err := strconv.Atoi(strings.TrimSuffix(manager, ".service")); ok &&
			err == nil && uid >= 0 {
			unit, user = "", uid
			continue
		}
		if strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope") {
			unit = part
		}
	}
	return unit, user
}
