//go:build linux

package receipts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/outbox"
	"github.com/lineage-ebpf/lineage/cmd/lineage/link"
	"github.com/lineage-ebpf/lineage/cmd/lineage/statedir"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// stream is a stream that knows no repeats: all that it gets is stored. It can be away, before it stores or
// after.
type stream struct {
	mu        sync.Mutex
	ids       []string
	bodies    map[string][]byte
	away      bool
	unsaid    int // the number of answers to come that are lost after it has stored
	refuses   bool
	lags      bool // the next answer is old
	questions int
}

var errAway = errors.New("away")

func (s *stream) Store(_ context.Context, name string, m *bus.Message) error {
	id := m.ID
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away || s.refuses || m.After != nil && m.After.Seq != uint64(len(s.ids)) {
		return errAway
	}
	if name != link.Receipts || m.Subject != "lin.h.web1.receipt" {
		return fmt.Errorf("stored %s in %s", m.Subject, name)
	}
	s.ids = append(s.ids, id)
	if s.bodies == nil {
		s.bodies = map[string][]byte{}
	}
	s.bodies[id] = bytes.Clone(m.Body)
	if s.unsaid > 0 {
		s.unsaid--
		return errAway
	}
	return nil
}

// Last is what the stream has last, or had before if a server answers that lags behind.
func (s *stream) Last(context.Context, string, string) (*bus.Place, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.questions++
	n := len(s.ids)
	if s.lags && n > 0 {
		n--
	}
	switch s.lags = false; {
	case s.away:
		return nil, errAway
	case n == 0:
		return &bus.Place{}, nil
	}
	return &bus.Place{ID: s.ids[n-1], Seq: uint64(n)}, nil
}

// host is a host whose link can be killed at any point.
type host struct {
	rapid.TB
	daemon *apitest.Client
	stream stream
	path   string
	dir    *statedir.Dir
	reader *Reader
	pub    *Publisher
	ended  int
	events chan struct{} // receives: the stream of events ends
}

func newHost(t rapid.TB, path string) *host {
	h := &host{TB: t, path: path, daemon: &apitest.Client{Has: apitest.Has{Policy: &api.Policy{}, PageSize: 2}}}
	h.start()
	return h
}

// start starts the link, as after a SIGKILL: nothing is kept but the files.
func (h *host) start() {
	h.Helper()
	if h.dir != nil {
		h.dir.Close()
	}
	var err error
	h.dir, err = statedir.Open(h.path)
	require.NoError(h, err)
	box, err := outbox.Open(h.dir, 4000)
	require.NoError(h, err)
	h.reader = &Reader{Dir: h.dir, Box: box, Host: "web1", Log: zerolog.Nop()}
	require.NoError(h, h.reader.Open())
	h.pub = &Publisher{Stream: &h.stream, Reader: h.reader, unsure: true}
}

// begin begins a session.
func (h *host) begin() {
	h.daemon.Lock()
	defer h.daemon.Unlock()
	id := fmt.Sprintf("s%05d", len(h.daemon.Has.Sessions))
	h.daemon.Has.Sessions = append(h.daemon.Has.Sessions, api.Session{
		ID: id, State: api.StateActive, Started: new(time.Now()), Root: &api.Process{Ref: api.Ref{PID: 10, StartNS: 7}},
	})
}

// end ends a session that is live, at a time; zero: as soon as it had begun.
func (h *host) end(at time.Time) {
	h.daemon.Lock()
	defer h.daemon.Unlock()
	for i := range h.daemon.Has.Sessions {
		if s := &h.daemon.Has.Sessions[i]; s.State == api.StateActive {
			if at.IsZero() {
				at = s.Started.Add(1)
			}
			s.State, s.Ended = api.StateEnded, &at
			h.ended++
			return
		}
	}
}

func (h *host) look() { _, _ = h.reader.look(context.Background(), h.daemon) }

// publish tries to publish the oldest receipt, and stops after a number of steps, as a SIGKILL does.
func (h *host) publish() bool {
	item, err := h.reader.Box.First()
	require.NoError(h, err)
	if item == nil {
		return false
	}
	if h.pub.publish(context.Background(), item) != nil {
		h.pub.unsure = true
		return false
	}
	return true
}

// once checks that each ended session has one receipt in the stream.
func (h *host) once() {
	h.Helper()
	ids := slices.Clone(h.stream.ids)
	slices.Sort(ids)
	if len(slices.Compact(slices.Clone(ids))) != len(ids) {
		h.Fatalf("stored twice: %v", ids)
	}
	if len(ids) != h.ended {
		h.Fatalf("%d receipts of %d ended sessions: %v", len(ids), h.ended, ids)
	}
}

// TestOnce: whatever fails, in whatever order, and whenever the link is killed: in the end the stream has
// each receipt once, though it recognises no repeat.
func TestOnce(t *testing.T) {
	was, whole := overlap, wholeTime
	overlap, wholeTime = 0, 0 // all of it is over in a moment
	defer func() { overlap, wholeTime = was, whole }()
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		h := newHost(t, outer.TempDir())
		defer h.dir.Close()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"begin", "end", "end in the past", "look", "publish", "kill", "lose an answer", "away", "refuse", "lag", "kill between", "restart of the daemon"}).Draw(t, "step") {
			case "begin":
				h.begin()
			case "end":
				h.end(time.Now())
			case "end in the past": // no daemon saw it
				h.end(time.Time{})
			case "look":
				h.look()
			case "restart of the daemon": // which has not written yet what ended meanwhile
				h.end(time.Time{})
				h.daemon.Lock()
				all := h.daemon.Has.Sessions
				h.daemon.Has.Sessions = slices.DeleteFunc(slices.Clone(all), func(s api.Session) bool { return s.State == api.StateEnded && s.Ended.Equal(s.Started.Add(1)) })
				h.daemon.Unlock()
				h.reader.whole = time.Time{}
				h.look()
				h.daemon.Lock()
				h.daemon.Has.Sessions = all
				h.daemon.Unlock()
			case "publish":
				h.publish()
			case "kill":
				h.start()
			case "lose an answer":
				h.stream.unsaid++
			case "away":
				h.stream.away = !h.stream.away
			case "refuse":
				h.stream.refuses = !h.stream.refuses
			case "lag":
				h.stream.lags = true
			case "kill between": // the receipt was stored and is in the outbox
				h.stream.lags = false
				if item, err := h.reader.Box.First(); err == nil && item != nil && !h.stream.away {
					last, _ := h.stream.Last(context.Background(), "", "")
					if id := "web1/" + item.ID; last.ID != id && h.pub.Stream.Store(context.Background(), link.Receipts, &bus.Message{Subject: "lin.h.web1.receipt", ID: id}) == nil {
						if rapid.Bool().Draw(t, "saved") {
							require.NoError(t, h.reader.Stored(item))
						}
					}
				}
				h.start()
			}
		}
		h.stream.away, h.stream.refuses, h.stream.unsaid, h.stream.lags = false, false, 0, false
		for range 3 { // the outbox may have been full
			h.look()
			for h.publish() {
			}
		}
		h.once()
	})
}

// TestBack: a receipt that the stream has is in the outbox again, as after a crash of the host, and is not the last
// one that was stored. It is not stored again.
func TestBack(t *testing.T) {
	h := newHost(t, t.TempDir())
	var back *outbox.Item
	for range 2 {
		h.begin()
		h.look()
		h.end(time.Now())
		h.look()
		item, err := h.reader.Box.First()
		require.NoError(t, err)
		if back == nil {
			back = item
		}
		require.Equal(t, h.publish(), true)
	}
	require.NoError(t, h.reader.Box.Put(back))
	h.start()
	require.Equal(t, h.publish(), true)
	require.Equal(t, h.publish(), false)
	h.once()
}

// TestLags: the answer of the stream was lost, and the server that says what it has last lags behind. The receipt is
// stored once.
func TestLags(t *testing.T) {
	h := newHost(t, t.TempDir())
	h.begin()
	h.end(time.Now())
	h.look()
	h.stream.unsaid = 1
	require.Equal(t, h.publish(), false)
	h.stream.lags = true
	require.Equal(t, h.publish(), false)
	require.Equal(t, h.publish(), true)
	h.once()
}

// TestReceipt: the message is what the daemon says, without secrets.
func TestReceipt(t *testing.T) {
	h := newHost(t, t.TempDir())
	h.daemon.Has.Policy = &api.Policy{Items: []api.PolicyValue{{Key: "redact.0", Value: "tea-[a-z]+"}}}
	h.begin()
	h.look()
	h.end(time.Now())
	h.daemon.Has.Reports = map[string]*api.Report{"s00000": {Session: "s00000", Verdict: api.VerdictClean, Processes: []api.Outcome{{Argv: []string{"x", "tea-green"}}}}}
	h.look()
	require.Equal(t, h.publish(), true)
	var m link.Receipt
	body := h.stream.bodies["web1/s00000-10@7"]
	require.NoError(t, json.Unmarshal(body, &m))
	if m.Host != "web1" || m.ID != "s00000-10@7" || m.Report == nil || m.Report.Verdict != api.VerdictClean || strings.Contains(string(body), "green") {
		t.Errorf("%s", body)
	}
}

// TestLarge: a receipt that is too large for a message is shortened, and says so.
func TestLarge(t *testing.T) {
	d := &api.Report{Session: "aaaaaa", Verdict: api.VerdictLeft}
	noise := rapid.SliceOfN(rapid.Byte(), 2000, 2000)
	for n := range 1000 {
		d.Processes = append(d.Processes, api.Outcome{Argv: []string{fmt.Sprintf("%x", noise.Example(n))}})
	}
	x, err := ofSession("web1", "aaaaaa-1@1", time.Now(), d)
	require.NoError(t, err)
	var m link.Receipt
	require.NoError(t, json.Unmarshal(x.Body, &m))
	if !m.Shortened || !m.Report.Truncated || m.Report.Verdict != api.VerdictLeft || len(x.Body) > 4096 {
		t.Errorf("%d bytes: %.300s", len(x.Body), x.Body)
	}
	receipt, err := json.Marshal(&api.CommandReceipt{ID: "c", Sessions: []string{"aaaaaa"}, Complete: true, Reports: []api.Report{*d}})
	require.NoError(t, err)
	x, err = OfCommand("web1", "c", &api.CommandReply{Receipt: string(receipt), Signature: "s", HostKey: "k"})
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(x.Body, &m))
	if m.Command.Signature != "" || !strings.Contains(m.Command.Receipt, `"sessions":["aaaaaa"],"complete":true`) || strings.Contains(m.Command.Receipt, "reports") {
		t.Errorf("%.300s", x.Body)
	}
}
