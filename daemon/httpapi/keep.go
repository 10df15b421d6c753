//go:build linux

package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

const (
	maxKept   = 256 // processes of one request
	maxReason = 1000
)

// keeps hands members over to sessions that outlive their own.
type keeps struct {
	find     *lookup.Finder
	registry *registry.Registry
	access   *access.Access
	kernel   lookup.Kernel
	proc     procfs.FS
	rules    *rules.Policy
	steward  *rules.Steward
	bodies   bodies
	log      zerolog.Logger
}

// postKeep hands members over to a kept session.
func (h *keeps) postKeep(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	var req api.KeepRequest
	if err := h.bodies.decode(w, r, &req); err != nil {
		return err
	}
	now := time.Now()
	bad := func(format string, args ...any) error {
		return api.NewError(api.CodeBadRequest, fmt.Sprintf(format, args...), "")
	}
	switch {
	case c.Foreign:
		return lookup.Foreign(c)
	case len(req.Refs) == 0 || len(req.Refs) > maxKept:
		return bad("invalid refs: must be 1 to %d processes", maxKept)
	case req.Name != "" && !api.IsSessionWord(req.Name):
		return badName(req.Name)
	case strings.TrimSpace(req.Reason) == "" || len(req.Reason) > maxReason:
		return bad("invalid reason: must be a text of at most %d bytes", maxReason)
	case !req.Until.After(now):
		return bad("invalid until %s: must be in the future", req.Until.Format(time.RFC3339))
	}
	if c.Member != 0 {
		return h.keepByRule(w, &req, c)
	}
	var all []tracer.Identity
	var from tracer.SessionInfo
	for _, ref := range req.Refs {
		if ref.StartNS == 0 {
			return api.NewError(api.CodeBadRequest, fmt.Sprintf("keep %v: must be PID@START_NS", ref), `"lineage tree -o name" prints it`)
		}
		id, live, err := h.find.Identity(ref.String(), c)
		if err != nil {
			return err
		}
		info, err := h.keepable(id, live, c)
		if err != nil {
			return err
		}
		if len(all) > 0 && info.ID != from.ID {
			return bad("pid %d is in session %v, pid %d in %v: keep them with one request for each session", id.PID, info.ID, all[0].PID, from.ID)
		}
		all, from = append(all, id), info
	}
	by := c.Document()
	info, err := h.steward.Keep(from, all, req.Name, rules.Kept{Reason: req.Reason, By: by}, req.Until)
	if err != nil {
		return keepError(all[0], err)
	}
	// From now on each answer says what the members of both sessions use and hold.
	if _, err := h.registry.Resync(registry.CauseMoved); err != nil {
		h.log.Error().Err(err).Msg("state of the kernel side not read")
	}
	return h.reply(w, info.ID, from.ID, all, c)
}

// reply sends the session that processes were handed over to.
func (h *keeps) reply(w http.ResponseWriter, id, from tracer.SessionID, all []tracer.Identity, c access.Caller) error {
	d, err := documentOf(h.registry, id, c)
	if err != nil {
		return err
	}
	d.Warnings = h.losesTerminal(all, from)
	h.log.Info().Str(logging.KeySession, d.ID).Str(logging.KeyName, d.Name).Uint32(logging.KeyUID, c.UID).Uint32(logging.KeyPID, all[0].PID).
		Msg("process kept")
	h.access.Done(c, access.Keep, d.ID)
	d.Head = api.NewHead("session")
	return reply(w, http.StatusCreated, d)
}

// keepable finds the session that a process would be handed over from.
func (h *keeps) keepable(id tracer.Identity, live bool, c access.Caller) (info tracer.SessionInfo, err error) {
	e, lerr := h.kernel.Lookup(id.PID)
	member := live && lerr == nil && e.Identity == id && e.Session != 0
	d := access.Decide(c, access.Keep, access.Scope{UID: c.UID})
	info, err = registry.Ask(h.registry, func(v registry.View) (info tracer.SessionInfo) {
		if x := v.Ask(e.Session); member && x != nil {
			info = x.Info()
		}
		return info
	})
	if d.Allow && info.ID != 0 {
		d = h.find.DecideChain(c, access.Keep, info.ID) // the kept session will be nested in none of these
	}
	switch {
	case err != nil:
		return info, err
	case !d.Allow:
		return info, h.access.Refuse(c, access.Keep, fmt.Sprintf("pid %d", id.PID), d)
	case !live:
		return info, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d has exited", id.PID), "")
	case info.ID == 0:
		return info, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d is in no session, so lineage will not end it", id.PID), "")
	case info.Kept:
		return info, api.NewError(api.CodeBadRequest, fmt.Sprintf("pid %d is already kept, in session %v", id.PID, info.ID), "")
	}
	return info, nil
}

func keepError(id tracer.Identity, err error) error {
	switch {
	case errors.Is(err, tracer.ErrRoot):
		return api.NewError(api.CodeGuarded, fmt.Sprintf("keep pid %d: it is the root of its session, which lasts as long as it runs", id.PID), "keep what it started")
	case errors.Is(err, tracer.ErrNotFound):
		return api.NewError(api.CodeNotFound, fmt.Sprintf("keep pid %d: it has exited or left its session", id.PID), "")
	case errors.Is(err, tracer.ErrProtected):
		return api.NewError(api.CodeGuarded, fmt.Sprintf("keep pid %d: it is protected: nothing ends it", id.PID), "")
	}
	return err
}

// losesTerminal names the processes whose terminal is lost when members of their former
// session end.
func (h *keeps) losesTerminal(all []tracer.Identity, from tracer.SessionID) (warnings []string) {
	for _, id := range all {
		st, err := h.proc.Stat(id.PID)
		if err != nil || st.TTY == 0 || uint32(st.SID) == id.PID {
			continue
		}
		sid := uint32(st.SID)
		if e, err := h.kernel.Lookup(sid); err == nil && e.Session == from {
			warnings = append(warnings, fmt.Sprintf("pid %d loses its terminal when pid %d ends", id.PID, sid))
		}
	}
	return warnings
}
