//go:build linux

package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/instance"
	"github.com/lineage-ebpf/lineage/daemon/journal"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/rs/zerolog"
)

// Why a session is over that no daemon saw end.
const (
	reasonReboot    = "reboot"    // the host was restarted
	reasonUntracked = "untracked" // the kernel's record of it went, with the programs or without a daemon
)

// rememberTimeout bounds what a start waits for the history.
const rememberTimeout = 5 * time.Second

// openHistory opens the history of the instance. One that cannot be used is
// loud, and stops nothing.
func openHistory(i instance.Instance, boot string, r *rules.Policy, c registry.Clock, log zerolog.Logger) *journal.Journal {
	h := r.Started().Daemon.History
	return journal.Open(i.History, journal.Options{
		Boot: boot, MaxAge: h.MaxAge.Std(), MaxBytes: int64(h.MaxSize),
		Now: func() time.Time { return c.Zero().Add(time.Duration(c.Boottime())) }, // as what is written
		Told: func(err error, aside string) {
			switch {
			case aside != "":
				log.Error().Err(err).Str(logging.KeyPath, i.History).Str(logging.KeyFile, aside).Msg("history set aside and begun anew")
			case err != nil:
				log.Error().Err(err).Str(logging.KeyPath, i.History).Msg("history is not written")
			default:
				log.Warn().Str(logging.KeyPath, i.History).Msg("history is written again")
			}
		},
	})
}

// remember takes up what the daemon before us wrote of the sessions that the
// kernel still holds, before it is asked for them; those that it does not hold
// are over. It is called before anybody else uses owner and recorder.
func (s *server) remember() error {
	ctx, cancel := context.WithTimeout(context.Background(), rememberTimeout)
	defer cancel()
	infos, err := s.kernel.Sessions()
	if err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	held := make(map[tracer.SessionID]bool, len(infos))
	for _, info := range infos {
		held[info.ID] = true
	}
	r := s.recorder
	live, err := r.journal.Live(ctx)
	if err != nil {
		s.log.Error().Err(err).Msg("nothing is remembered")
		return nil // the kernel's word is enough
	}
	for i := range live {
		row := &live[i]
		if row.Boot != s.bootID || !held[row.ID] {
			r.over = append(r.over, s.overWithoutUs(ctx, row))
			continue
		}
		if !json.Valid(row.State) {
			s.log.Error().Str(logging.KeySession, row.Word).Msg("session not remembered")
			continue
		}
		processes, err := r.journal.Processes(ctx, row.Boot, row.ID)
		if err != nil {
			s.log.Error().Err(err).Str(logging.KeySession, row.Word).Msg("processes not remembered")
		}
		nodes := decodeNodes(processes)
		err = s.registry.Update(func(t registry.Tx) { t.Remember(row.ID, row.State, nodes) })
		if err != nil {
			return err
		}
		for i := range nodes {
			if nodes[i].State == lineage.Live {
				r.rows[nodes[i].ID] = true
			} else {
				r.dead[row.ID]++
			}
		}
	}
	return nil
}

// decodeNodes leaves out what cannot be read: its sum was right, so another
// version wrote it.
func decodeNodes(processes []journal.Process) []lineage.Node {
	nodes := make([]lineage.Node, 0, len(processes))
	for i := range processes {
		var n lineage.Node
		if json.Unmarshal(processes[i].Doc, &n) == nil && n.ID.PID == processes[i].PID && n.ID.Start == processes[i].Start {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// overWithoutUs closes a session that ended while no daemon looked. A restart
// of the host is proof that nothing of it lives; without one nothing is proven.
func (s *server) overWithoutUs(ctx context.Context, row *journal.Session) journal.Session {
	reason, verdict := reasonUntracked, enforcer.Unknown
	why := "the kernel's record of it went while no daemon ran; what became of its members is not known"
	if row.Boot != s.bootID {
		reason, verdict = reasonReboot, enforcer.Clean
		why = "the host was restarted: no process outlives that"
	}
	var doc api.Session
	var m struct {
		EndedBy  *api.Caller     `json:"ended_by"`
		WouldEnd []string        `json:"would_end"`
		Receipt  enforcer.Booked `json:"receipt"`
	}
	_ = json.Unmarshal(row.Doc, &doc) // what is not there is not told
	_ = json.Unmarshal(row.State, &m)
	if doc.EndReason == "" {
		doc.EndReason = reason
	}
	doc.Verdict = string(verdict)
	doc.ID, doc.Name, doc.UID, doc.State, doc.Deadline, doc.Ports = row.Word, row.Name, int(row.UID), tracer.StateEmpty.String(), nil, nil
	doc.Live, doc.Orphans, doc.Leftovers, doc.Zombies = 0, 0, 0, 0
	report := api.Report{
		Head: head("report"), Session: doc.ID, Name: doc.Name, State: doc.State, EndReason: doc.EndReason, EndedBy: m.EndedBy,
		Verdict: string(verdict), VerdictWhy: why, Processes: append([]api.Outcome{}, m.Receipt.Outcomes...),
		Started: doc.Forks + 1, Killed: m.Receipt.Killed, WouldEnd: m.WouldEnd,
		ConfirmedEmpty: verdict == enforcer.Clean, Truncated: true,
	}
	over := *row
	over.State = nil
	over.Doc, _ = json.Marshal(&doc) // plain structs
	over.Report, _ = json.Marshal(&report)
	over.Ended = row.Started
	// When it ended is not known: it was after the last that is written of its boot.
	if last, err := s.recorder.journal.Last(ctx, row.Boot); err == nil && last.After(over.Ended) {
		over.Ended = last
	}
	s.log.Warn().Str(logging.KeySession, doc.ID).Str(logging.KeyReason, doc.EndReason).Msg("session was over before the daemon began")
	return over
}
