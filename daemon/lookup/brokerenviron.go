package lookup

import (
	"bytes"
	"crypto/sha256"
	"slices"

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

// SumOf gives the sum of a value.
func SumOf(value string) Sum { return sha256.Sum256([]byte(value)) }

// session is the session's id, which `lineage run` gives to its members too.
const session = "LINEAGE_SESSION"

// cookies are set by GitHub's runner, Jenkins and Claude Code.
var cookies = []string{"RUNNER_TRACKING_ID", "BUILD_ID", "JENKINS_NODE_COOKIE", "CLAUDE_CODE_SESSION_ID"}

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
// brokered work.
func ArgvOf(proc procfs.FS, pid uint32) (argv []string, truncated bool) {
	b, truncated := proc.Cmdline(pid)
	redact.Token(b)
	return procfs.SplitArgv(b), truncated
}
