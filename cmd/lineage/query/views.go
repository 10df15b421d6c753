package query

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// Left lists what the selected sessions have left behind.
func Left(list func(*api.Orphans) *text.Listing) func(context.Context, api.Client, *api.Selection) (*text.Listing, error) {
	return func(ctx context.Context, c api.Client, sel *api.Selection) (*text.Listing, error) {
		doc, err := sel.LeftBy(ctx, c)
		if err != nil {
			return nil, err
		}
		return list(doc), nil
	}
}

// HostOrphans finds the orphans of this host; unknown is what could not be read.
type HostOrphans func(context.Context) (orphans []text.HostOrphan, unknown []string, err error)

// Outside lists those that are in no session.
func Outside(ctx context.Context, c api.Client, find HostOrphans) (*text.Listing, error) {
	orphans, unknown, err := find(ctx)
	if err != nil {
		return nil, fmt.Errorf("ls: %w", err)
	}
	doc := text.HostOrphans{Items: []text.HostOrphan{}, Unknown: unknown}
	v, err := c.Version(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range orphans {
		if o.PID == v.PID {
			continue // the daemon itself
		}
		p, err := c.Process(ctx, o.Ref.String())
		if api.IsNotFound(err) || err == nil && p.Session != "" {
			continue // it is gone, or "lineage ls --left" lists it
		}
		if err == nil {
			o.Ref = p.Ref // with its exact start
		}
		o.Ports = slices.DeleteFunc(o.Ports, func(port api.Port) bool {
			if port.PID == 0 || port.PID == o.PID {
				return false
			}
			holder, err := c.Process(ctx, strconv.Itoa(port.PID))
			return err == nil && holder.Session != "" // a session that the orphan started
		})
		if !o.Holds() {
			continue
		}
		doc.Items = append(doc.Items, o)
	}
	return text.OutsideOrphans(&doc), nil
}
