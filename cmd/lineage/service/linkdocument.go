package service

import (
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// ReceiptsStream is the stream that stores the receipts of all hosts: the subjects lin.h.*.receipt.
const ReceiptsStream = "LIN_RECEIPTS"

// HostsStream is the stream of the KV bucket LIN_HOSTS, which has a key for each host that is there.
const HostsStream = "KV_LIN_HOSTS"

// HostSubject is the key of a host.
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

// StreamPath is answered with parts without end, while the question is sent again within StreamTime.
const (
	StreamPath = "/v1/watch"
	StreamTime = 30 * time.Second
)

// ReceiptSubject is where a host publishes receipts.
func ReceiptSubject(host string) string { return "lin.h." + host + ".receipt" }

// Gzip is the value of the header Content-Encoding of a message that is compressed because it is large.
const (
	EncodingHeader = "Content-Encoding"
	Gzip           = "gzip"
)

// Receipt is a message of the stream.
type Receipt struct {
	api.Head
	Host string `json:"host"` // its name in subjects; the header Nats-Msg-Id has it before a slash and the id
	api.Receipt
	Shortened bool `json:"shortened,omitempty"` // it was too large: the report without processes, the command without reports and signature
}

// Hosts is what an operator's program says for each line that it is told: the hosts that are there.
type Hosts struct {
	Names []string `json:"names"`
	Error string   `json:"error,omitempty"`
}

// LinkedHost is how a host is. Without an answer of its daemon the figures are 0, and Degraded says so.
type LinkedHost struct {
	api.Head
	Host      string    `json:"host"`               // its name in subjects
	Time      time.Time `json:"time"`               // of the host, when it said so
	Boot      string    `json:"boot"`               // id of the boot
	Version   string    `json:"version,omitempty"`  // of the daemon
	Level     int       `json:"level,omitempty"`    // guarantee level, 1 to 4
	Mode      string    `json:"mode,omitempty"`     // observe, enforce
	Sessions  int       `json:"sessions"`           // that are live
	Live      int       `json:"live"`               // members that are alive
	Leftovers int       `json:"leftovers"`          // … while the root of their session is gone
	Degraded  []string  `json:"degraded,omitempty"` // what does not work as it should
}
