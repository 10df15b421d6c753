package access

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/redact"
)

type AuditFile struct {
	Name string
	io.Reader
}

// VerifyAudit checks the log in files, the oldest first, with the receipts in it, other receipts against it,
// and the log against these receipts.
func VerifyAudit(files []AuditFile, receipts []*api.Report, x AuditExpect) (*api.Verification, error) {
	v := &api.Verification{Head: api.NewHead("verification"), Files: len(files), Findings: []string{}}
	c := newClaims(receipts, x)
	var l Chain
	for _, f := range files {
		if err := l.Read(f.Name, f, c.met); err != nil {
			return nil, err
		}
	}
	v.Records, v.Lost, v.Incomplete = l.Records, int(l.Lost), l.Incomplete
	if l.Records > 0 {
		v.First, v.Last, v.Newest = &l.First.Time, &l.Last.Time, l.Last.Head.String()
	}
	v.Findings = append(append(v.Findings, l.Broken...), c.wrong...)
	if first := l.First; first.Head.Seq > max(l.Oldest, 1) && first.Prev != "" {
		v.Findings = append(v.Findings, fmt.Sprintf("the log begins with record %d, not %d: the beginning is missing",
			first.Head.Seq, max(l.Oldest, 1)))
	}
	c.judge(&l, v)
	return v, nil
}

// AuditExpect is what the log and the history must have.
type AuditExpect struct {
	Head ChainHead // a record; zero: none
	// The history has a receipt of each end in the log between these times. Zero: it is not complete.
	Since, Until time.Time
	UIDs         map[*api.Report]int // whose sessions they were
}

// settled is how long after its end a session has its record. A daemon that is killed before the history has
// the end records it again, at almost the same time.
const settled = 10 * time.Second

// claims are what receipts and the caller say of a log.
type claims struct {
	AuditExpect
	hashes    map[uint64]string // of the records that they name; empty: not met
	ends      []*chainEnd
	of        map[string][]*chainEnd // by session: ids are used again
	unchecked int
	wrong     []string // of the receipts in the log
}

// chainEnd is a receipt, and what the log says of its end.
type chainEnd struct {
	receipt *api.Report
	logged  ChainRecord
}

func newClaims(receipts []*api.Report, x AuditExpect) *claims {
	c := &claims{AuditExpect: x, hashes: map[uint64]string{}, of: map[string][]*chainEnd{}}
	c.hashes[x.Head.Seq] = ""
	for _, r := range receipts {
		if h, err := ParseChainHead(r.AuditHead); err == nil {
			c.hashes[h.Seq] = ""
		}
		e := &chainEnd{receipt: r}
		c.ends, c.of[r.Session] = append(c.ends, e), append(c.of[r.Session], e)
	}
	return c
}

func (c *claims) met(r ChainRecord) {
	if _, named := c.hashes[r.Head.Seq]; named {
		c.hashes[r.Head.Seq] = r.Head.Hash
	}
	if r.Report == nil {
		return
	}
	for _, why := range r.Report.Contradictions() {
		c.wrong = append(c.wrong, fmt.Sprintf("record %d, receipt %s: %s", r.Head.Seq, r.Report.Session, why))
	}
	if r.Report.Ended == nil {
		return // it was not over
	}
	for _, e := range c.of[r.Report.Session] {
		if e.receipt.Ended != nil && e.receipt.Ended.Sub(*r.Report.Ended).Abs() < settled {
			e.logged = r // the last one counts
			return
		}
	}
	if !r.Report.Ended.After(c.Since) {
		c.unchecked++
	} else if r.Time.Before(c.Until) {
		c.wrong = append(c.wrong, fmt.Sprintf("record %d, receipt %s: the history has no receipt of this end",
			r.Head.Seq, r.Report.Session))
	}
}

func (c *claims) judge(l *Chain, v *api.Verification) {
	say := func(format string, args ...any) { v.Findings = append(v.Findings, fmt.Sprintf(format, args...)) }
	if c.Head.Hash != "" {
		switch why, known := c.against(c.Head, l); {
		case !known:
			say("record %d is older than record %d, the first one that is kept: it cannot be checked",
				c.Head.Seq, l.First.Head.Seq)
		case why != "":
			say("record %d %s", c.Head.Seq, why)
		}
	}
	v.Receipts, v.Unchecked = len(c.ends), c.unchecked
	for _, e := range c.ends {
		r := e.receipt
		for _, why := range r.Contradictions() {
			say("receipt %s: %s", r.Session, why)
		}
		switch there := e.logged; {
		case there.Report == nil:
			if r.Ended != nil && l.Lost == 0 && r.Ended.After(l.First.Time) && r.Ended.Before(c.Until.Add(-settled)) {
				say("receipt %s: the audit log has no such end", r.Session)
			} else {
				v.Unchecked++
			}
		case outcome(there.Report) != outcome(r):
			say("receipt %s: it says %s, and the audit log %s", r.Session, outcome(r), outcome(there.Report))
		case there.Receipt != "" && c.UIDs != nil &&
			there.Receipt != r.Digest(c.UIDs[r]), rewritten(there.Report.Processes, r.Processes):
			say("receipt %s: it was changed since record %d of the audit log", r.Session, there.Head.Seq)
		}
		if r.AuditHead == "" {
			continue
		}
		h, err := ParseChainHead(r.AuditHead)
		if err != nil {
			say("receipt %s: the record of the audit log that it names cannot be read", r.Session)
			continue
		}
		switch why, known := c.against(h, l); {
		case !known:
			v.Older++
		case why != "":
			say("receipt %s: it names record %d of the audit log, which %s", r.Session, h.Seq, why)
		}
	}
}

// against compares a head with the log; not known: the log no longer has it.
func (c *claims) against(h ChainHead, l *Chain) (why string, known bool) {
	switch have := c.hashes[h.Seq]; {
	case have == h.Hash:
		return "", true
	case have != "":
		return "has another hash: the log was replaced", true
	case h.Seq > l.Last.Head.Seq:
		return fmt.Sprintf("is not there: the log ends at record %d, and was cut or replaced",
			l.Last.Head.Seq), true
	case h.Seq+1 == l.First.Head.Seq && l.First.Prev != "":
		if l.First.Prev != h.Hash {
			return "is not the one before the first record: the log was replaced", true
		}
		return "", true
	case h.Seq < l.First.Head.Seq:
		return "", false
	}
	return "is missing", true
}

// rewritten reports whether a command line is not the one in the log, as far as that has it and shows its secrets.
func rewritten(logged, now []api.Outcome) bool {
	for i := range min(len(logged), len(now)) {
		if was := logged[i].Argv; was != nil &&
			!slices.EqualFunc(was, now[i].Argv,
				func(a, b string) bool { return a == b || strings.Contains(a, redact.Hidden) }) {
			return true
		}
	}
	return false
}

// outcome is what a receipt and its record in the log must agree about.
func outcome(r *api.Report) string {
	return fmt.Sprintf("%s: %d started, %d exited, %d killed, %d left", r.Verdict,
		r.Started, r.Exited, r.Killed, r.Left)
}
