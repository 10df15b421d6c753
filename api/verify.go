package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Verification is what a check of the audit log and of the receipts found.
type Verification struct {
	Head
	Files      int        `json:"files"`                // of the audit log
	Records    int        `json:"records"`              // in them
	Lost       int        `json:"lost,omitempty"`       // records that could not be written
	Incomplete int        `json:"incomplete,omitempty"` // lines that a killed daemon left unfinished
	First      *time.Time `json:"first,omitempty"`      // the time of the first record
	Last       *time.Time `json:"last,omitempty"`       // … of the last one
	Newest     string     `json:"newest,omitempty"`     // number and hash of the last one
	Receipts   int        `json:"receipts"`             // that were checked
	Older      int        `json:"older,omitempty"`      // of them name a record that the log no longer has
	Unchecked  int        `json:"unchecked,omitempty"`  // ends that only one of log and history has: the other keeps no older ones, or no daemon ran
	Degraded   []string   `json:"degraded,omitempty"`   // why the daemon's history is not complete
	Findings   []string   `json:"findings"`             // what does not fit
}

// Digest is the SHA-256 of the receipt of a session of a user. It is the same for all who may read it:
// command lines, which are redacted, and the state of delegated work are not in it.
func (r *Report) Digest(uid int) string {
	all := *r
	all.Head, all.Delegated = Head{}, nil
	all.Processes = slices.Clone(r.Processes)
	for i := range all.Processes {
		all.Processes[i].Argv = nil
	}
	text, err := json.Marshal(struct {
		UID int
		*Report
	}{uid, &all})
	if err != nil {
		return "" // a time that JSON cannot have
	}
	// Once decoded, what was no UTF-8 is encoded in another way.
	return fmt.Sprintf("%x", sha256.Sum256(bytes.ReplaceAll(text, []byte(`\ufffd`), []byte("\ufffd"))))
}

// Counted is what the kernel side had counted of a session at its verdict.
type Counted struct {
	Births    uint64 `json:"births"`              // children that members made
	Live      int64  `json:"live"`                // members
	Dying     int64  `json:"dying"`               // members that have exited and are still torn down
	Unentered int    `json:"unentered,omitempty"` // children that there was no room for
	Corrected bool   `json:"corrected,omitempty"` // the count of members had to be corrected
}

// Contradictions are what cannot be true of a receipt together: its verdict, its numbers, the processes
// that it names, and what the kernel side had counted.
func (r *Report) Contradictions() (all []string) {
	if r.Verdict == "" {
		return nil
	}
	wrong := func(holds bool, format string, args ...any) {
		if holds {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	killed, left := 0, 0
	for i := range r.Processes {
		switch r.Processes[i].Outcome {
		case OutcomeKill:
			killed++
		case OutcomeLeft:
			left++
		}
	}
	wrong(killed > r.Killed || killed < r.Killed && !r.Truncated,
		"it counts %d killed, and names %d", r.Killed, killed)
	wrong(left > r.Left || left < r.Left && !r.Truncated,
		"it counts %d left, and names %d", r.Left, left)
	clean := r.Verdict == VerdictClean
	wrong(clean && r.Left > 0, "its verdict is clean, and it counts %d left", r.Left)
	wrong(clean && !r.ConfirmedEmpty, "its verdict is clean, and no scan confirmed it")
	wrong(r.Verdict == VerdictLeft && r.Left == 0, "its verdict is left, and it counts none")
	c := r.Counted
	if c == nil {
		return all
	}
	wrong(clean && c.Live+c.Dying != 0, "its verdict is clean, and the kernel counted %d live and %d dying",
		c.Live, c.Dying)
	wrong(clean && c.Corrected, "its verdict is clean, and the kernel's count had been corrected")
	wrong(clean && c.Unentered > 0, "its verdict is clean, and the kernel had no room for %d children",
		c.Unentered)
	wrong(r.Started > 0 && uint64(r.Started) <= c.Births,
		"it counts %d processes started, and the kernel %d births", r.Started, c.Births)
	return all
}
