package model

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
)

// saved is a model on disk: what is alive, and the images that led to it.
type saved struct {
	Boot      string                `json:"boot"`
	Sessions  []*record.SessionInfo `json:"sessions"`
	Images    []savedImage          `json:"images"` // creators come before the images that they created
	Processes []savedProcess        `json:"processes"`
	Time      api.Event             `json:"time"`
}

type savedImage struct {
	record.Image
	Creator int // index in Images plus one; 0: none
}

type savedProcess struct {
	record.Process
	Image   int // index in Images
	Used    bool
	Opened  bool
	Marks   []api.Event `json:",omitempty"`
	Dropped int         `json:",omitempty"`
}

// Save gives the model as a document.
func (m *Model) Save() ([]byte, error) {
	d := saved{Boot: m.boot, Time: m.last}
	for _, s := range m.sessions {
		if s.info.State != api.StateEnded && !s.unsure {
			d.Sessions = append(d.Sessions, s.info)
		}
	}
	index := make(map[*record.Image]int)
	for _, p := range m.processes {
		if !p.Exited.IsZero() {
			continue
		}
		doc := savedProcess{Process: p.Process, Image: d.add(p.Image, index) - 1, Used: p.used, Opened: p.opened, Marks: p.marks, Dropped: p.dropped}
		doc.Process.Image = nil
		d.Processes = append(d.Processes, doc)
	}
	b, err := json.Marshal(&d)
	if err != nil {
		return nil, fmt.Errorf("encode model: %w", err)
	}
	return b, nil
}

// add adds an image after its creators and returns its index plus one.
func (d *saved) add(i *record.Image, index map[*record.Image]int) int {
	var chain []*record.Image
	for ; i != nil && index[i] == 0; i = i.Creator {
		chain = append(chain, i)
	}
	last := index[i]
	for _, i := range slices.Backward(chain) {
		doc := savedImage{Image: *i, Creator: last}
		doc.Image.Creator = nil
		d.Images = append(d.Images, doc)
		last = len(d.Images)
		index[i] = last
	}
	return last
}

// Load is the model that Save wrote.
func Load(b []byte, host *record.Host, from Source) (*Model, error) {
	var d saved
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("read model: %w", err)
	}
	m := New(host, d.Boot, from)
	m.last = d.Time
	for _, s := range d.Sessions {
		m.sessions[s.ID] = &session{info: s}
	}
	images := make([]*record.Image, len(d.Images))
	for i := range d.Images {
		doc := &d.Images[i]
		if doc.Creator < 0 || doc.Creator > i {
			return nil, fmt.Errorf("read model: image %d has a creator behind it", i)
		}
		images[i] = &doc.Image
		if doc.Creator > 0 {
			images[i].Creator = images[doc.Creator-1]
		}
	}
	for i := range d.Processes {
		doc := &d.Processes[i]
		if doc.Image < 0 || doc.Image >= len(images) {
			return nil, fmt.Errorf("read model: process %d has no image", i)
		}
		p := &process{Process: doc.Process, used: doc.Used, opened: doc.Opened, marks: doc.Marks, dropped: doc.Dropped}
		p.Image = images[doc.Image]
		m.marks += len(p.marks)
		m.processes[p.Image.Ref] = p
	}
	return m, nil
}
