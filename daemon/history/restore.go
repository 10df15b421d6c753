//go:build linux

package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/rs/zerolog"
)

// Why a session ended that no daemon saw end.
const (
	ReasonReboot    = "reboot"    // the host was restarted
	ReasonUntracked = "untracked" // the kernel's record was removed, with the programs or without a daemon
)

// rememberTimeout bounds what a start waits for the history.
const rememberTimeout = 5 * time.Second

// Open opens the history of the instance. If it cannot be used, that is reported, and
// nothing stops.
func Open(path, boot string, maxAge time.Duration, maxBytes int64, c registry.Clock,
	log zerolog.Logger) *Journal {
	return OpenJournal(path, JournalOptions{
		Boot: boot, MaxAge: maxAge, MaxBytes: maxBytes,
		Now: func() time.Time { return c.Zero().Add(time.Duration(c.Boottime())) }, // the clock of what is written
		Changed: func(err error, aside string) {
			switch {
			case aside != "":
				log.Error().Err(err).Str(system.KeyPath, path).
					Str(system.KeyFile, aside).Msg("history set aside, a new one begun")
			case err != nil:
				log.Error().Err(err).Str(system.KeyPath, path).Msg("history is not written")
			default:
				log.Warn().Str(system.KeyPath, path).Msg("history is written again")
			}
		},
	})
}

// Remember restores what the previous daemon wrote of the sessions that the kernel
// still holds, before the kernel is asked for them; the others have ended: receipts are those that the
// audit log has. It is called before the registry and the recorder are used.
func (r *Recorder) Remember(receipts map[string]*api.Report) error {
	ctx, cancel := context.WithTimeout(context.Background(), rememberTimeout)
	defer cancel()
	infos, err := r.Kernel.Sessions()
	if err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	held := make(map[tracer.SessionID]bool, len(infos))
	for _, info := range infos {
		held[info.ID] = true
		if info.State != tracer.StateEmpty {
			continue
		}
		row, err := r.Journal.Session(ctx, r.Boot, info.ID)
		if err != nil || row == nil || row.Ended.IsZero() {
			continue
		}
		if err := r.Registry.Update(func(t registry.Tx) { t.Over(info.ID) }); err != nil {
			return err
		}
	}
	live, err := r.Journal.Live(ctx)
	if err != nil {
		r.Log.Error().Err(err).Msg("sessions of the previous daemon not restored from the history")
		return nil // the kernel's list is enough
	}
	for i := range live {
		row := &live[i]
		if row.Boot != r.Boot || !held[row.ID] {
			r.over = append(r.over, r.overWithoutUs(ctx, row, receipts[row.Word]))
			continue
		}
		if !json.Valid(row.State) {
			r.Log.Error().Str(system.KeySession, row.Word).Msg("session not restored from the history")
			continue
		}
		processes, err := r.Journal.Processes(ctx, row.Boot, row.ID)
		system.Failure(r.Log, err).
			Str(system.KeySession, row.Word).Msg("processes not restored from the history")
		nodes := decodeNodes(processes)
		err = r.Registry.Update(func(t registry.Tx) { t.Remember(row.ID, row.State, nodes) })
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

// kept is a process as its row has it: without a parent that is its creator, and without the name of its last command.
type kept struct {
	lineage.Node
	Parent *lineage.ID   `json:",omitempty"`
	Comm   *lineage.Comm `json:",omitempty"`
}

func lastComm(n *lineage.Node) *lineage.Comm {
	var name lineage.Comm
	if c := n.Commands; len(c) > 0 {
		name = lineage.CommOf(c[len(c)-1].Comm)
	}
	return &name
}

// decodeNodes leaves out what cannot be decoded: its checksum was right, so another
// version wrote it. Processes of one tool call share it, as they did, so that all learn of its end.
func decodeNodes(processes []Process) []lineage.Node {
	nodes := make([]lineage.Node, 0, len(processes))
	calls := make(map[string][]*lineage.Call) // by id
	containers := make(map[lineage.Container]*lineage.Container)
	for _, p := range processes {
		k := kept{Node: lineage.Node{ID: lineage.ID{PID: p.PID, Start: p.Start}, Session: p.Session}}
		if json.Unmarshal(p.Doc, &k) != nil {
			continue
		}
		n := k.Node
		n.Parent, n.Comm = *cmp.Or(k.Parent, &n.Creator), *cmp.Or(k.Comm, lastComm(&n))
		if c := n.Container; c != nil { // processes share it
			if containers[*c] == nil {
				containers[*c] = c
			}
			n.Container = containers[*c]
		}
		nodes = append(nodes, n)
		share(n.Claim, calls)
	}
	return nodes
}

// share replaces the calls of a claim by equal ones that were met before.
func share(c *lineage.Claim, met map[string][]*lineage.Call) {
	if c == nil {
		return
	}
	for i, x := range c.Calls {
		at := slices.IndexFunc(met[x.ID], x.Same)
		if at < 0 {
			met[x.ID] = append(met[x.ID], x)
			continue
		}
		c.Calls[i] = met[x.ID][at]
		c.Calls[i].Learn(x)
	}
}

// overWithoutUs closes a session that ended while no daemon ran, or of which the previous one was killed before
// it had written more than the audit log's receipt, which may be of an older one with this id. A restart of the
// host proves that no process of it lives; without one nothing is proven.
func (r *Recorder) overWithoutUs(ctx context.Context, row *Session, logged *api.Report) Session {
	reason, verdict := ReasonUntracked, api.VerdictUnknown
	why := "the kernel's record of it was removed while no daemon ran; whether its members are alive is unknown"
	if row.Boot != r.Boot {
		reason, verdict = ReasonReboot, api.VerdictClean
		why = "the host was restarted: no process survives that"
	}
	var doc api.Session
	var m struct {
		EndedBy  *api.Caller     `json:"ended_by"`
		WouldEnd []string        `json:"would_end"`
		Receipt  enforcer.Booked `json:"receipt"`
	}
	_ = json.Unmarshal(row.Doc, &doc) // missing fields are left out
	_ = json.Unmarshal(row.State, &m)
	doc.EndReason = cmp.Or(doc.EndReason, reason)
	doc.Verdict = verdict
	doc.ID, doc.Name, doc.UID, doc.State, doc.Deadline, doc.Ports = row.Word, row.Name, int(row.UID), api.StateEnded, nil, nil
	doc.Live, doc.Orphans, doc.Leftovers, doc.Zombies = 0, 0, 0, 0
	receipt := enforcer.Resume(m.Receipt)
	report := receipt.Report(tracer.SessionInfo{ID: row.ID, Name: doc.Name,
		State: tracer.StateEmpty, Forks: uint64(doc.Forks)}, doc.Joined, 0, nil)
	report.Session, report.EndReason, report.EndedBy, report.WouldEnd = row.Word, doc.EndReason, m.EndedBy, m.WouldEnd
	report.Verdict, report.VerdictWhy, report.ConfirmedEmpty = verdict, why, verdict == api.VerdictClean
	report.Exited, report.Truncated = 0, true // who else exited is not known
	if logged != nil && logged.Ended != nil && logged.Ended.After(row.Started.Add(-time.Minute)) {
		report, doc.EndReason, doc.Verdict, doc.Ended = logged, logged.EndReason, logged.Verdict, logged.Ended
	}
	over := *row
	over.State = nil
	over.Doc, _ = json.Marshal(&doc) // plain structs
	over.Report, _ = json.Marshal(report)
	over.Ended = row.Started
	// The time of its end is unknown: it was after the last record of its boot.
	if last, err := r.Journal.Last(ctx, row.Boot); report.Ended != nil {
		over.Ended = *report.Ended
	} else if err == nil && last.After(over.Ended) {
		over.Ended = last
	}
	r.Log.Warn().Str(system.KeySession, doc.ID).
		Str(system.KeyReason, doc.EndReason).Msg("session had ended before the daemon started")
	return over
}
