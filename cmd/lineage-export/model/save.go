package model

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
)

// The bounds of a saved model.
const (
	maxLine   = 1 << 20 // bytes
	maxSaved  = 4 * maxImages
	saveBytes = 64 << 10 // that are written at once
)

// line is one line of a saved model: what is alive, and the images that led to it. Exactly one field is set.
type line struct {
	Model   *savedModel         `json:"model,omitempty"` // the first
	Session *record.SessionInfo `json:"session,omitempty"`
	Image   *savedImage         `json:"image,omitempty"` // creators come before the images that they created
	Process *savedProcess       `json:"process,omitempty"`
	Lines   int                 `json:"lines,omitempty"` // the last: how many came before
}

type savedModel struct {
	Boot string    `json:"boot"`
	Time api.Event `json:"time"`
}

type savedImage struct {
	record.Image     // without its program, if that is its creator's
	Creator      int // index of an image before it plus one; 0: none
}

type savedProcess struct {
	record.Process
	Image   int // index of an image before it
	Used    bool
	Opened  bool
	Marks   []api.Event `json:",omitempty"`
	Dropped int         `json:",omitempty"`
}

// saver writes the lines. After an error it writes nothing.
type saver struct {
	to     *json.Encoder
	images map[*record.Image]int // their indices plus one
	chain  []*record.Image       // to be written
	lines  int
	err    error
}

func (s *saver) put(l *line) {
	if s.err == nil {
		s.err = s.to.Encode(l)
		s.lines++
	}
}

// image writes an image after its creators and returns its index plus one.
func (s *saver) image(i *record.Image) int {
	s.chain = s.chain[:0]
	for ; i != nil && s.images[i] == 0; i = i.Creator {
		s.chain = append(s.chain, i)
	}
	last := s.images[i]
	for _, i := range slices.Backward(s.chain) {
		doc := savedImage{Image: *i, Creator: last}
		doc.Image.Creator = nil
		if copied(i) {
			doc.Exe, doc.Argv, doc.ArgvTruncated = "", nil, false
		}
		s.put(&line{Image: &doc})
		last = len(s.images) + 1
		s.images[i] = last
	}
	return last
}

// Save writes the model, one line for each thing in it: as one document it would take several
// times the memory of the model.
func (m *Model) Save(w io.Writer) error {
	to := bufio.NewWriterSize(w, saveBytes)
	s := saver{to: json.NewEncoder(to), images: make(map[*record.Image]int)}
	s.to.SetEscapeHTML(false)
	s.put(&line{Model: &savedModel{Boot: m.boot, Time: m.last}})
	for _, x := range m.sessions {
		if x.info.State != api.StateEnded && !x.unsure {
			s.put(&line{Session: x.info})
		}
	}
	for _, p := range m.processes {
		if !p.Exited.IsZero() {
			continue
		}
		doc := savedProcess{Process: p.Process, Image: s.image(p.Image) - 1, Used: p.used, Opened: p.opened, Marks: p.marks, Dropped: p.dropped}
		doc.Process.Image = nil
		s.put(&line{Process: &doc})
	}
	s.put(&line{Lines: s.lines})
	if s.err == nil {
		s.err = to.Flush()
	}
	if s.err != nil {
		return fmt.Errorf("save model: %w", s.err)
	}
	return nil
}

// loader makes a model of lines.
type loader struct {
	m      *Model
	images []*record.Image
	calls  map[string][]api.Call // those that processes share
	lines  int
	whole  bool // the last line was read
}

// Load is the model that Save wrote.
func Load(r io.Reader, host *record.Host, from Source) (*Model, error) {
	l := loader{m: New(host, "", from), calls: make(map[string][]api.Call)}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var doc line
		err := json.Unmarshal(lines.Bytes(), &doc)
		if err == nil {
			err = l.take(&doc)
		}
		if err != nil {
			return nil, fmt.Errorf("read model: line %d: %w", l.lines+1, err)
		}
		l.lines++
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read model: line %d: %w", l.lines+1, err)
	}
	if !l.whole {
		return nil, errors.New("read model: its end is missing")
	}
	return l.m, nil
}

func (l *loader) take(doc *line) error {
	if l.whole || (doc.Model != nil) != (l.lines == 0) {
		return errors.New("not in its place")
	}
	switch {
	case doc.Model != nil:
		l.m.boot, l.m.last = doc.Model.Boot, doc.Model.Time
	case doc.Session != nil:
		l.m.sessions[doc.Session.ID] = &session{info: doc.Session}
	case doc.Image != nil:
		return l.image(doc.Image)
	case doc.Process != nil:
		return l.process(doc.Process)
	case doc.Lines == l.lines:
		l.whole = true
	default:
		return errors.New("lines are missing")
	}
	if len(l.m.sessions) > maxSaved {
		return errors.New("too many sessions")
	}
	return nil
}

func (l *loader) image(doc *savedImage) error {
	if len(l.images) == maxSaved {
		return errors.New("too many images")
	}
	if doc.Creator < 0 || doc.Creator > len(l.images) {
		return errors.New("an image has a creator behind it")
	}
	i := new(doc.Image) // a copy: doc shall not stay in memory
	if doc.Creator > 0 {
		i.Creator = l.images[doc.Creator-1]
	}
	if copied(i) {
		copyProgram(i, i.Creator)
	}
	l.m.bound(i)
	l.images = append(l.images, i)
	return nil
}

func (l *loader) process(doc *savedProcess) error {
	if doc.Image < 0 || doc.Image >= len(l.images) {
		return errors.New("a process has no image")
	}
	if len(l.m.processes) == maxProcesses {
		return errors.New("too many processes")
	}
	p := &process{Process: doc.Process, used: doc.Used, opened: doc.Opened, marks: doc.Marks, dropped: doc.Dropped}
	p.Image = l.images[doc.Image]
	if len(p.Calls) > 0 {
		key := ""
		for _, c := range p.Calls {
			key += c.ID + "\x00" + c.Tool + "\x00"
		}
		if before := l.calls[key]; sameCalls(before, p.Calls) {
			p.Calls = before
		}
		l.calls[key] = p.Calls
	}
	l.m.marks += len(p.marks)
	l.m.processes[p.Image.Ref] = p
	return nil
}
