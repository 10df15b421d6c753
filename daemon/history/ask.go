//go:build linux

package history

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/lineage"
)

// ask takes sessions and processes from the registry, in small pieces.
func (r *Recorder) ask(b *batch) {
	var rows []row
	var ids []lineage.ID
	err := r.Registry.Read(func(v registry.View) {
		for id := range r.marks.unsaved {
			r.sessions[id] = true
		}
		clear(r.marks.unsaved)
		if b.LetGo = slices.Clone(r.marks.letGo); len(b.LetGo) > 0 {
			maps.DeleteFunc(r.rows, func(id lineage.ID, _ bool) bool {
				n, ok := v.Graph().Node(id)
				return !ok || v.Session(n.Session) == nil
			})
		}
		for id := range r.sessions {
			if len(rows) == recordChunk {
				break
			}
			delete(r.sessions, id)
			x := v.Session(id)
			if x == nil || id == 0 {
				continue
			}
			v.Refresh(x)
			rows = append(rows, r.rowOf(v, x))
			if x.Closed() {
				for _, t := range v.Graph().Tree(true, id) {
					ids = append(ids, t.ID)
				}
			}
		}
	})
	if err != nil {
		return
	}
	for i := range rows {
		r.keepRoot(&rows[i])
		if err := rows[i].encode(r.Redact); err != nil {
			r.Log.Error().Err(err).Str(system.KeySession, rows[i].Word).Msg("session not recorded")
			continue
		}
		b.Sessions = append(b.Sessions, rows[i].Session)
	}
	r.askProcesses(b, ids, true)
	touched := slices.Collect(maps.Keys(r.touched))
	clear(r.touched)
	r.askProcesses(b, touched, false)
}

// keepRoot takes the root of a session that is written again from its row, if the graph has
// forgotten the root meanwhile.
func (r *Recorder) keepRoot(x *row) {
	if x.doc.Root == nil || x.doc.Root.Comm != "" {
		return
	}
	before, err := r.Journal.Session(context.Background(), r.Boot, x.ID) // which bounds itself
	if err != nil || before == nil {
		return
	}
	var doc api.Session
	if json.Unmarshal(before.Doc, &doc) == nil && doc.Root != nil && doc.Root.Ref == x.doc.Root.Ref {
		x.doc.Root = doc.Root
	}
}

// askProcesses takes the needed ones of ids, or all.
func (r *Recorder) askProcesses(b *batch, ids []lineage.ID, all bool) {
	most := min(recordChunk, len(ids))
	nodes := make([]lineage.Node, 0, most)
	needed := make([]bool, 0, most)
	for len(ids) > 0 {
		chunk := ids[:min(recordChunk, len(ids))]
		ids = ids[len(chunk):]
		nodes, needed = nodes[:0], needed[:0]
		err := r.Registry.Read(func(v registry.View) {
			g := v.Graph()
			for _, id := range chunk {
				need := g.Needed(id)
				if !all && !need && !r.rows[id] {
					continue
				}
				if n, ok := g.Node(id); ok && v.Session(n.Session) != nil {
					nodes, needed = append(nodes, n), append(needed, need)
				}
			}
		})
		if err != nil {
			return
		}
		for i := range nodes {
			r.process(b, &nodes[i], needed[i], all)
		}
	}
}

// process adds a process to the batch. A live session keeps a limited number of dead
// processes on disk, as the graph does.
func (r *Recorder) process(b *batch, n *lineage.Node, needed, all bool) {
	p := Process{PID: n.ID.PID, Start: n.ID.Start, Session: n.Session}
	if needed {
		r.rows[n.ID] = true
	} else if !all {
		b.past = append(b.past, p)
		if r.dead[n.Session] >= lineage.DefaultHistory {
			b.Gone = append(b.Gone, p)
			return
		}
	}
	n.Shorten()
	for i := range n.Commands {
		n.Commands[i].Argv = r.Redact(n.Commands[i].Argv)
	}
	k := kept{Node: *n}
	if n.Parent != n.Creator {
		k.Parent = &n.Parent
	}
	if n.Comm != *lastComm(n) {
		k.Comm = &n.Comm
	}
	var err error
	if p.Doc, err = json.Marshal(&k); err != nil {
		r.Log.Error().Err(err).Uint32(system.KeyPID, n.ID.PID).Msg("process not recorded")
		return
	}
	b.Processes = append(b.Processes, p)
}
