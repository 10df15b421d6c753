//go:build linux

package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/holdings"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

func (h *processes) whyPort(w http.ResponseWriter, r *http.Request, c access.Caller, q url.Values) error {
	port, err := strconv.ParseUint(q.Get("port"), 10, 16)
	proto := cmp.Or(q.Get("proto"), "tcp")
	if err != nil || port == 0 || proto != "tcp" && proto != "udp" ||
		q.Has("device") || q.Has("inode") {
		return api.Errorf(api.CodeBadRequest,
			"invalid port %q or proto %q: must be 1 to 65535, and tcp or udp", q.Get("port"), proto)
	}
	return h.whyHeld(
		w,
		r,
		c,
		fmt.Sprintf("port %d/%s", port, proto),
		fmt.Sprintf("no listener found on %d/%s", port, proto),
		func(ctx context.Context) (held found) {
			members, err := registry.AskFor(h.Registry, c, func(v registry.View) (pids []string) {
				for _, x := range v.Sorted() {
					for p := range v.Graph().Members(x.ID()) {
						pids = append(pids, strconv.Itoa(int(p.PID)))
					}
				}
				return pids
			})
			if err != nil {
				held.Unknown = []string{"members: " + err.Error()}
				return held
			}
			held.Held, held.waits = h.Holdings.Reader().Listeners(ctx, proto, uint16(port), members...)
			if proto == "tcp" {
				held.Ports = h.reported(c, held.Ports, uint16(port))
			}
			return held
		},
	)
}

// reported adds members that listen but that procfs did not show: there was no time, or a process
// may not be read.
func (h *processes) reported(c access.Caller, found []holdings.Port, port uint16) []holdings.Port {
	listening, err := registry.AskFor(h.Registry, c,
		func(v registry.View) []holdings.Port { return h.Holdings.Listening(v, port) })
	if err != nil {
		return found
	}
	for _, p := range listening {
		held := func(q holdings.Port) bool { return q.Same(&p) && !q.Holder.IsZero() }
		if slices.ContainsFunc(found, held) {
			continue
		}
		found = slices.DeleteFunc(found, func(q holdings.Port) bool { return q.Same(&p) })
		found = append(found, p)
	}
	return found
}

func (h *processes) whyPath(w http.ResponseWriter, r *http.Request, c access.Caller, q url.Values) error {
	f := holdings.Wanted{Path: q.Get("path")}
	var err error
	for name, to := range map[string]*uint64{"device": &f.Device, "inode": &f.Inode} {
		if q.Has(name) && err == nil {
			*to, err = strconv.ParseUint(q.Get(name), 10, 64)
		}
	}
	if err != nil || !filepath.IsAbs(f.Path) || q.Has("proto") || q.Has("device") != q.Has("inode") {
		return api.Errorf(api.CodeBadRequest,
			"invalid path %q: must be absolute, with device and inode or neither", f.Path)
	}
	f.Path = filepath.Clean(f.Path)
	return h.whyHeld(w, r, c, "path "+f.Path, "no process found that has "+f.Path+" open or locked",
		func(ctx context.Context) (held found) {
			held.files, held.Held = h.Holdings.Reader().Holders(ctx, f)
			return held
		})
}

type found struct {
	holdings.Held
	files []holdings.File
	waits int
}

// whyHeld answers about each process that holds something, if the caller may read that
// process.
func (h *processes) whyHeld(w http.ResponseWriter, r *http.Request, c access.Caller, what,
	none string, find func(context.Context) found) error {
	if c.Foreign {
		return lookup.Foreign(c)
	}
	ctx, done, err := h.Find.Collect(r.Context())
	if err != nil {
		return err
	}
	defer done()
	held := find(ctx)
	holders := held.holders()
	d := api.Holders{Head: api.NewHead("holders"), Items: []api.Why{},
		TimeWait: held.waits, Unknown: held.Unknown}
	for _, x := range holders {
		if x.id.IsZero() {
			d.Items = append(d.Items, api.Why{Holds: x.Document(nil)})
			continue
		}
		p, t, err := h.Find.Look(x.id, true, c)
		if p == nil || err != nil {
			continue // it is gone by now
		}
		if !access.Decide(c, access.Read, t).Allow {
			d.Hidden++
			continue
		}
		h.Find.Enrich(c, p)
		why, err := h.Find.Why(x.id, true, p, c)
		if err != nil {
			return err
		}
		why.Holds = x.Document(x.files)
		d.Items = append(d.Items, why)
	}
	switch {
	case outOfTime(ctx, &d):
		return api.NewError(api.CodeTimedOut,
			"why "+what+": not found in the time that a search may take", "try again")
	case len(d.Items) > 0:
		return reply(w, http.StatusOK, d)
	case d.Hidden > 0:
		who := fmt.Sprintf("%d processes of other users hold", d.Hidden)
		if d.Hidden == 1 {
			who = "1 process of another user holds"
		}
		return api.NewError(api.CodeDenied,
			fmt.Sprintf("why %s: not permitted: %s it", what, who), "run with sudo")
	}
	message := none
	if d.TimeWait > 0 {
		message += fmt.Sprintf("; %d of its connections are in TIME_WAIT", d.TimeWait)
	}
	if len(d.Unknown) > 0 {
		message += " (" + strings.Join(d.Unknown, "; ") + ")"
	}
	return api.NewError(api.CodeNotFound, message, "")
}

// outOfTime reports whether a search ended before it had found a process: another one may.
func outOfTime(ctx context.Context, d *api.Holders) bool {
	return ctx.Err() != nil && d.Hidden == 0 && !slices.ContainsFunc(d.Items,
		func(w api.Why) bool { return w.Process.PID != 0 })
}

// maxItems bounds the processes of one answer.
const maxItems = 64

type holder struct {
	id tracer.Identity
	holdings.Held
	files []holdings.File
}

func (f *found) holders() (all []*holder) {
	seen := make(map[tracer.Identity]*holder)
	of := func(id tracer.Identity) *holder {
		h := seen[id]
		if h == nil {
			h = &holder{id: id}
			seen[id] = h
			if len(all) < maxItems {
				all = append(all, h)
			} else {
				f.Unknown = append(f.Unknown[:len(f.Unknown):len(f.Unknown)],
					fmt.Sprintf("more than %d processes", maxItems))
			}
		}
		return h
	}
	for _, p := range f.Ports {
		h := of(p.Holder)
		h.Ports = append(h.Ports, p)
	}
	for _, l := range f.Locks {
		h := of(l.Holder)
		h.Locks = append(h.Locks, l)
	}
	for _, o := range f.files {
		h := of(o.Holder)
		h.files = append(h.files, o)
	}
	return all
}
