// Package verify checks what the daemon of this host has recorded: the receipts of its history, and the
// audit log.
package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
	"github.com/lineage-ebpf/lineage/daemon/audit/chain"
)

// Open opens the files of the audit log, the oldest first.
type Open func() (files []chain.File, done func(), err error)

// Check checks the receipts of the ended sessions, and the audit log, which must contain the record that
// head names, if it names one.
func Check(ctx context.Context, c api.Client, ended *api.Sessions, open Open, head chain.Head) (*api.Verification, error) {
	// The receipts come first: the log that is read then has all the records that they name.
	var receipts []*api.Report
	for i := range ended.Items {
		r, err := c.Report(ctx, ended.Items[i].ID, 0)
		if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeNotFound {
			continue // the history has let it go meanwhile
		}
		if err != nil {
			return nil, err
		}
		receipts = append(receipts, r)
	}
	files, done, err := open()
	if err != nil {
		return nil, err
	}
	defer done()
	p, err := c.Policy(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(p.Items, func(x api.PolicyValue) bool { return x.Key == "daemon.audit.keep" })
	keep := 0.0 // not known: the log may begin anywhere
	if at >= 0 {
		keep, _ = p.Items[at].Value.(float64)
	}
	return chain.Verify(files, receipts, head, int(keep))
}

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
		switch {
		case len(v.Findings) > 0:
		case v.Older > 0:
			p.Line("nothing was changed in what the log still has")
		default:
			p.Line("nothing was changed, nothing is missing")
		}
	}}
}
