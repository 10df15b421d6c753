package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
	"github.com/lineage-ebpf/lineage/daemon/access"
)

// OpenAudit opens the files of the audit log, the oldest first.
type OpenAudit func() (files []access.AuditFile, done func(), err error)

// Verify checks the receipts of the ended sessions, and the audit log, which must contain the record that
// head names, if it names one. The sessions were listed after began.
func Verify(ctx context.Context, c api.Client, ended *api.Sessions, open OpenAudit,
	head access.ChainHead, began time.Time) (*api.Verification, error) {
	// The receipts come first: the log that is read then has all the records that they name.
	var receipts []*api.Report
	var changed []string
	oldest := began
	x := access.AuditExpect{Head: head, Until: began, UIDs: map[*api.Report]int{}}
	for i := range ended.Items {
		s := &ended.Items[i]
		r, err := c.Report(ctx, s.ID, 0)
		if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeNotFound {
			continue // the history has let it go meanwhile
		} else if ok && e.Code == api.CodeInternal {
			changed = append(changed, fmt.Sprintf("receipt %s: %v", s.ID, err))
			continue
		}
		if err != nil {
			return nil, err
		}
		receipts, x.UIDs[r] = append(receipts, r), s.UID
		if r.Ended != nil && r.Ended.Before(oldest) {
			oldest = *r.Ended
		}
		if s.ID != r.Session || s.Name != r.Name || s.EndReason != r.EndReason || s.Verdict != r.Verdict {
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
	x.Since = began
	for _, item := range p.Items {
		if age, err := time.ParseDuration(fmt.Sprint(item.Value)); item.Key == "daemon.history.max_age" && err == nil {
			x.Since = began.Add(-age)
		}
	}
	// A history of this size may have let its oldest sessions go before they were too old.
	if st.Counters["history.bytes"] > pruned && oldest.After(x.Since) {
		x.Since = oldest
	}
	v, err := access.VerifyAudit(files, receipts, x)
	if err != nil {
		return nil, err
	}
	v.Findings, v.Degraded = append(v.Findings, changed...), st.History
	return v, nil
}

// pruned is less, in bytes, than the smallest history that retention may prune for its size.
const pruned = 8 << 20

func VerificationText(v *api.Verification) *text.Listing {
	return &text.Listing{Doc: v, Items: []any{v}, Text: func(p *text.Page) {
		log := fmt.Sprintf("audit log: %s in %s", display.Count(v.Records, "record"),
			display.Count(v.Files, "file"))
		if v.First != nil && v.Last != nil {
			log += fmt.Sprintf(", %s to %s", v.First.In(p.Now.Location()).Format(time.DateTime),
				v.Last.In(p.Now.Location()).Format(time.DateTime))
		}
		p.Wrap(0, log)
		if v.Lost > 0 {
			p.Wrap(2, display.Count(v.Lost, "record")+" could not be written")
		}
		if v.Incomplete > 0 {
			p.Wrap(2, display.Count(v.Incomplete, "line")+" unfinished, where a daemon was killed")
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
		case v.Unchecked > 0:
			p.Wrap(
				0,
				fmt.Sprintf(
					"nothing was changed in what could be compared; %s could not: they are older than what the history or the log keeps, or no daemon ran",
					display.Count(v.Unchecked, "end"),
				),
			)
		case v.Older > 0 || v.Lost > 0:
			p.Line("nothing was changed in what the log has")
		default:
			p.Line("nothing was changed, nothing is missing")
		}
	}}
}
