// Package verify checks what the daemon of this host has recorded: the receipts of its history, and the
// audit log.
package verify

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
	"github.com/lineage-ebpf/lineage/daemon/audit/chain"
)

// Open opens the files of the audit log, the oldest first.
type Open func() (files []chain.File, done func(), err error)

// Check checks the receipts of the ended sessions, and the audit log, which must contain the record that
// head names, if it names one. The sessions were listed after began.
func Check(ctx context.Context, c api.Client, ended *api.Sessions, open Open, head chain.Head, began time.Time) (*api.Verification, error) {
	// The receipts come first: the log that is read then has all the records that they name.
	var receipts []*api.Report
	var changed []string
	x := chain.Expect{Head: head, Until: began, UIDs: map[*api.Report]int{}}
	for i := range ended.Items {
		r, err := c.Report(ctx, ended.Items[i].ID, 0)
		if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeNotFound {
			continue // the history has let it go meanwhile
		}
		if err != nil {
			return nil, err
		}
		receipts, x.UIDs[r] = append(receipts, r), ended.Items[i].UID
		if s := &ended.Items[i]; s.Name != r.Name || s.EndReason != r.EndReason || s.Verdict != r.Verdict {
			changed = append(changed, fmt.Sprintf("receipt %s: it does not fit its session, %s", r.Session, s.ID))
		}
	}
	files, done, err := open()
	if err != nil {
		return nil, err
	}
	defer done()
	st, err := c.Status(ctx)
	if err != nil {
		return nil, err
	}
	p, err := c.Policy(ctx)
	if err != nil {
		return nil, err
	}
	x.Keep, x.Since = kept(p, began)
	// A history of this size may have let its oldest sessions go before they were too old.
	if st.Counters["history.bytes"] > pruned {
		oldest := began
		for _, r := range receipts {
			if r.Ended != nil && r.Ended.Before(oldest) {
				oldest = *r.Ended
			}
		}
		if oldest.After(x.Since) {
			x.Since = oldest
		}
	}
	v, err := chain.Verify(files, receipts, x)
	if err != nil {
		return nil, err
	}
	v.Findings = append(v.Findings, changed...)
	for _, why := range st.Degraded {
		if strings.Contains(why, "history") {
			v.Degraded = append(v.Degraded, why)
		}
	}
	return v, nil
}

// kept is how many files of the log are kept, and since when the history has every session, by the policy.
func kept(p *api.Policy, began time.Time) (files int, since time.Time) {
	since = began
	for _, item := range p.Items {
		text := fmt.Sprint(item.Value)
		switch item.Key {
		case "daemon.audit.keep":
			files, _ = strconv.Atoi(text)
		case "daemon.history.max_age":
			if age, err := time.ParseDuration(text); err == nil {
				since = began.Add(-age)
			}
		}
	}
	return files, since
}

// pruned is less, in bytes, than the smallest history that retention may prune for its size.
const pruned = 8 << 20

// Text shows what a check found.
func Text(v *api.Verification) *text.Listing {
	return &text.Listing{Doc: v, Items: []any{v}, Text: func(p *text.Page) {
		log := fmt.Sprintf("audit log: %s in %s", display.Count(v.Records, "record", "records"), display.Count(v.Files, "file", "files"))
		if v.First != nil && v.Last != nil {
			log += fmt.Sprintf(", %s to %s", v.First.In(p.Now.Location()).Format(time.DateTime), v.Last.In(p.Now.Location()).Format(time.DateTime))
		}
		p.Wrap(0, log)
		if v.Unlinked > 0 {
			p.Wrap(2, display.Count(v.Unlinked, "record", "records")+" without a hash, of an older version")
		}
		if v.Incomplete > 0 {
			p.Wrap(2, display.Count(v.Incomplete, "line", "lines")+" unfinished, where a daemon was killed")
		}
		receipts := fmt.Sprintf("receipts: %d", v.Receipts)
		if v.Older > 0 {
			receipts += fmt.Sprintf("; %d name a record that the log no longer has", v.Older)
		}
		p.Wrap(0, receipts)
		if v.Newest != "" {
			p.Line("newest record: %s", v.Newest)
		}
		for _, f := range v.Findings {
			p.Wrap(0, display.Text(f))
		}
		for _, why := range v.Degraded {
			p.Wrap(0, display.Text(why))
		}
		switch {
		case len(v.Findings) > 0:
		case len(v.Degraded) > 0:
			p.Line("nothing was changed in the log; the history is not complete")
		case v.Older > 0:
			p.Line("nothing was changed in what the log still has")
		default:
			p.Line("nothing was changed, nothing is missing")
		}
	}}
}
