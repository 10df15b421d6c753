package service

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/api"
)

// LinkProgram is a separate binary, with dependencies that the daemon's binary must not have.
const LinkProgram = "lineage-link"

// OperatorArg is the first argument of the program as -H with a group starts it.
const OperatorArg = "operator"

type LinkOptions struct {
	Servers []string
	Nkey    string
	Creds   string
	CA      string
	Name    string
	Answer  bool
}

// Flags adds the flags to a set: those of a link, and of an operator's program, whose name in subjects is the user name.
func (o *LinkOptions) Flags(f *pflag.FlagSet) {
	f.StringVar(&o.Name, "name", "", "the host's `NAME` in subjects (default the host name, with _ for each dot)")
	f.BoolVar(&o.Answer, "answer", false, "answer -H: what users of the group lineage may read")
	f.StringSliceVar(&o.Servers, "server", nil,
		"`URL,...` of NATS servers, as tls://nats.example.org:4222; nats:// only on this host")
	f.StringVar(&o.Nkey, "nkey", "", "`FILE` with the seed of the nkey of this host")
	f.StringVar(&o.Creds, "creds", "", "`FILE` with the JWT and the seed of this host, in place of --nkey")
	f.StringVar(&o.CA, "ca", "", "`FILE` with the certificates that are trusted, in place of the system's")
}

// Check says what is wrong with the flags, without reading a file.
func (o *LinkOptions) Check() error {
	if len(o.Servers) == 0 {
		return errors.New("--server is missing; give the URL of a NATS server")
	}
	secure := 0
	for _, s := range o.Servers {
		tls, err := checkServer(s)
		if err != nil {
			return fmt.Errorf("invalid --server %q: %w", s, err)
		}
		if tls {
			secure++
		}
	}
	switch {
	case secure != 0 && secure != len(o.Servers):
		return errors.New("--server: give either tls:// or nats:// URLs")
	case o.Nkey != "" && o.Creds != "":
		return errors.New("give one of --nkey and --creds")
	case o.CA != "" && secure == 0:
		return errors.New("--ca needs tls:// URLs")
	case o.Name != "" && !IsName(o.Name):
		return fmt.Errorf("invalid --name %q: use at most %d letters, digits, - and _", o.Name, maxName)
	}
	return nil
}

func (o *LinkOptions) Secure() bool { return strings.HasPrefix(o.Servers[0], "tls:") }

// checkServer reports whether it is a URL with TLS. Without it others could read and change what is sent,
// so the server must be on this host.
func checkServer(text string) (secure bool, err error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return false, errors.New("not a URL")
	case u.Scheme != "tls" && u.Scheme != "nats":
		return false, errors.New("must begin with tls:// or nats://")
	case u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return false, errors.New("must be tls://HOST:PORT")
	case u.User != nil:
		return false, errors.New("must not contain a password; use --nkey or --creds")
	case u.Scheme == "tls":
		return true, nil
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return false, errors.New("nats:// is without TLS, and only for 127.0.0.1, ::1 and localhost; use tls://")
	}
	return false, nil
}

const maxName = 64

func IsName(text string) bool {
	return text != "" && len(text) <= maxName && !strings.ContainsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	})
}

// NameOf is the name in subjects of a host with this host name. Host names have no _, so that two of them
// do not become one.
func NameOf(hostname string) string { return strings.ReplaceAll(hostname, ".", "_") }

// HostName is the name in subjects that this host has by default.
func HostName() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("the host's name is unknown: %w", err)
	}
	name := NameOf(host)
	if !IsName(name) {
		return "", fmt.Errorf("the host name %q cannot be part of a subject; choose a name", host)
	}
	return name, nil
}

// HostOf is the host name that has this name in subjects.
func HostOf(name string) string { return strings.ReplaceAll(name, "_", ".") }

// ReceiptsStream is the stream that stores the receipts of all hosts: the subjects lin.h.*.receipt.
const ReceiptsStream = "LIN_RECEIPTS"

// HostsStream is the stream of the KV bucket LIN_HOSTS, which has a key for each host that is there.
const HostsStream = "KV_LIN_HOSTS"

func HostSubject(host string) string { return "$KV.LIN_HOSTS." + host }

// CommandSubject is where a host takes signed commands. The answer is that of POST /v1/commands, in parts.
func CommandSubject(host string) string { return "lin.h." + host + ".cmd" }

// AskSubject is where a host answers questions: about a command that came over it, and if its link runs with
// --answer, all that GET answers for remote callers.
func AskSubject(host string) string { return "lin.h." + host + ".ask" }

// Question asks what GET of a path of the daemon's socket answers. The answer comes in parts, whose bodies
// together are the daemon's; their headers are those below, and the API's.
type Question struct {
	Path string `json:"path"` // with its query
}

// Headers of a part.
const (
	PartHeader   = "Lineage-Part"   // 0, 1 …
	MoreHeader   = "Lineage-More"   // 1: another part follows
	StatusHeader = "Lineage-Status" // of HTTP; only in part 0
	BrokenHeader = "Lineage-Broken" // why the answer ends here and is not whole
)

// PartBytes is how much of an answer a part has at most, before it is compressed.
const PartBytes = 512 << 10

// ReceiptSubject is where a host publishes receipts.
func ReceiptSubject(host string) string { return "lin.h." + host + ".receipt" }

// Gzip is the value of the header Content-Encoding of a message that is compressed because it is large.
const (
	EncodingHeader = "Content-Encoding"
	Gzip           = "gzip"
)

type Receipt struct {
	api.Head
	Host string `json:"host"` // its name in subjects; the header Nats-Msg-Id has it before a slash and the id
	api.Receipt
	Shortened bool `json:"shortened,omitempty"` // it was too large: the report without processes, the command without reports and signature
}

// Hosts is the answer of the operator's program to the line "hosts" on its stdin: the hosts that are there.
type Hosts struct {
	Names []string `json:"names"`
	Error string   `json:"error,omitempty"`
}

// LinkedHost is how a host is. Without an answer of its daemon the figures are 0, and Degraded says so.
type LinkedHost struct {
	api.Head
	Host     string    `json:"host"`               // its name in subjects
	Time     time.Time `json:"time"`               // of the host, when it said so
	Boot     string    `json:"boot"`               // id of the boot
	Version  string    `json:"version,omitempty"`  // of the daemon
	Level    int       `json:"level,omitempty"`    // guarantee level, 1 to 4
	Mode     string    `json:"mode,omitempty"`     // observe, enforce
	Sessions int       `json:"sessions"`           // that are live
	Degraded []string  `json:"degraded,omitempty"` // what does not work as it should
}
