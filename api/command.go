package api

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The namespaces of SSH signatures: of commands, by operators, and of receipts, by hosts.
const (
	CommandNamespace = "lineage-command@1"
	ReceiptNamespace = "lineage-receipt@1"
)

// Bounds of a command.
const (
	MaxCommand    = 16 << 10        // bytes of its text
	MaxSignatures = 8               // of one command
	MaxSignature  = 4 << 10         // bytes of one, armored
	MaxValidity   = 5 * time.Minute // from Issued to NotAfter
	maxHosts      = 256             // keys of hosts that one names
	maxSelected   = 64              // sessions that one names
	maxReason     = 1000            // bytes
)

// The verbs of a command.
const (
	VerbEnd  = "end"  // sessions
	VerbHalt = "halt" // hosts, as a HaltRequest does
)

// Command is what operators sign. It acts on each of its hosts at most once, and never after NotAfter.
type Command struct {
	V        int       `json:"v"`                  // 1
	ID       string    `json:"id"`                 // 128 random bits as 32 hexadecimal digits
	Verb     string    `json:"verb"`               // end or halt
	Mode     string    `json:"mode,omitempty"`     // of a halt: halt, drain or off
	Hosts    []string  `json:"hosts"`              // fingerprints of SSH host keys, as SHA256:…; of a host that has none its name
	Sessions []string  `json:"sessions,omitempty"` // ids, names or patterns of names: of every live session that the host has then
	All      bool      `json:"all,omitempty"`      // every live session that is not kept, for a halt the kept ones too, instead of Sessions
	Plan     string    `json:"plan,omitempty"`     // tokens of the Plans, with commas, one of which must still hold for each session
	GraceMS  *int64    `json:"grace_ms,omitempty"` // from SIGTERM to SIGKILL; absent: each session's own
	Reason   string    `json:"reason"`             // for people
	Issued   time.Time `json:"issued"`             // when it was made
	NotAfter time.Time `json:"not_after"`          // at most 5 min after Issued
}

// NewCommandID makes the id of a new command.
func NewCommandID() string {
	var id [16]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// Text is the only text of a command, and what is signed: JSON in the order of the fields, without
// spaces, times in UTC.
func (c Command) Text() string {
	text, err := c.encode()
	if err != nil {
		panic(err) // [ParseCommand] refuses what JSON lacks
	}
	return text
}

func (c Command) encode() (string, error) {
	c.Issued, c.NotAfter = c.Issued.UTC(), c.NotAfter.UTC()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(c) // a time may be of a year that JSON lacks, in UTC
	return strings.TrimSuffix(b.String(), "\n"), err
}

// ParseCommand reads the text of a command. A text that [Command.Text] would not write is refused, so
// that two readers cannot see two commands in it.
func ParseCommand(text string) (*Command, error) {
	if len(text) > MaxCommand {
		return nil, fmt.Errorf("the command is larger than %d KiB", MaxCommand>>10)
	}
	var c Command
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, errors.New("the command is not JSON of this version")
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if canonical, err := c.encode(); err != nil || canonical != text {
		return nil, errors.New("the text of the command is not canonical")
	}
	return &c, nil
}

// check returns what is wrong with a command in itself.
func (c *Command) check() error {
	id, err := hex.DecodeString(c.ID)
	switch {
	case c.V != 1:
		return fmt.Errorf("version %d of the command is unknown", c.V)
	case err != nil || len(id) != 16 || c.ID != strings.ToLower(c.ID):
		return errors.New("the id of the command is not 32 hexadecimal digits")
	case c.Verb != VerbEnd && c.Verb != VerbHalt:
		return fmt.Errorf("verb %q is unknown", c.Verb)
	case len(c.Hosts) == 0 || len(c.Hosts) > maxHosts:
		return fmt.Errorf("the command must name hosts by 1 to %d keys", maxHosts)
	case strings.TrimSpace(c.Reason) == "" || len(c.Reason) > c.maxReason():
		return fmt.Errorf("the reason must be a text of at most %d bytes", c.maxReason())
	case !c.NotAfter.After(c.Issued) || c.NotAfter.Sub(c.Issued) > MaxValidity:
		return fmt.Errorf("the command must be valid for at most %v", MaxValidity)
	}
	for _, text := range append(append([]string{c.Reason, c.Plan}, c.Hosts...), c.Sessions...) {
		if !Plain(text) {
			return errors.New("the command has a text with control characters")
		}
	}
	return c.checkVerb()
}

// checkVerb returns what its verb does not take.
func (c *Command) checkVerb() error {
	modes := []string{""}
	if c.Verb == VerbHalt {
		modes = []string{ModeHalt, ModeDrain, ModeOff}
	}
	switch {
	case !slices.Contains(modes, c.Mode):
		return fmt.Errorf("%s has no mode %q", c.Verb, c.Mode)
	case c.Verb != VerbEnd && (c.Plan != "" || c.GraceMS != nil):
		return fmt.Errorf("a %s has no plan and no grace", c.Verb)
	case c.Mode == ModeDrain || c.Mode == ModeOff:
		if c.All || len(c.Sessions) > 0 {
			return fmt.Errorf("mode %s ends no session", c.Mode)
		}
	case c.All == (len(c.Sessions) > 0) || len(c.Sessions) > maxSelected:
		return fmt.Errorf("the command must name 1 to %d sessions, or all", maxSelected)
	case slices.ContainsFunc(c.Sessions,
		func(word string) bool { return !isPattern(word) && !IsSessionWord(word) }):
		return errors.New("the command must name sessions by ids, names or patterns")
	case c.GraceMS != nil && (*c.GraceMS < 0 || *c.GraceMS > MaxGrace.Milliseconds()):
		return fmt.Errorf("the grace must be 0 to %v", MaxGrace)
	}
	return nil
}

func (c *Command) maxReason() int {
	if c.Verb == VerbHalt {
		return MaxHaltReason
	}
	return maxReason
}

// Plain reports whether a text is UTF-8 without control characters, and so is one line.
func Plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// SignedCommand is a command with its signatures. It is also the file that the signers pass on.
type SignedCommand struct {
	Command    string   `json:"command"`    // the text that was signed
	Signatures []string `json:"signatures"` // of the text, armored SSH signatures of the namespace lineage-command@1
}

// CommandReceipt is what became of a command on one host.
type CommandReceipt struct {
	ID        string    `json:"id"`                // of the command
	Verb      string    `json:"verb"`              // of the command
	Host      string    `json:"host"`              // its name
	Operators []string  `json:"operators"`         // that signed, by their names in the operators file
	Reason    string    `json:"reason"`            // of the command
	Accepted  time.Time `json:"accepted"`          // when the host accepted it
	Mode      string    `json:"mode,omitempty"`    // of the command
	Sessions  []string  `json:"sessions"`          // ids of those that it ends
	Spared    []string  `json:"spared,omitempty"`  // why a guard spared a session, for each that a halt met
	Complete  bool      `json:"complete"`          // each of them has a verdict
	Reports   []Report  `json:"reports,omitempty"` // their receipts; absent in the reply to the command itself
}

// CommandReply carries a receipt with the host's signature.
type CommandReply struct {
	Head
	Receipt   string `json:"receipt"`             // the JSON text of a CommandReceipt
	Signature string `json:"signature,omitempty"` // of that text by the host key, armored, of the namespace lineage-receipt@1; absent: the host has none
	HostKey   string `json:"host_key,omitempty"`  // its fingerprint
}
