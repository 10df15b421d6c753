//go:build linux

package follow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// stream is a stream that knows no repeats: all that it gets is stored.
type stream struct {
	ids     []string
	body    []byte // of the last one
	away    bool
	refuses bool
	unsaid  int  // the number of answers to come that are lost after it has stored
	lags    bool // the next answer is old
}

var errAway = errors.New("away")

func (s *stream) Store(_ context.Context, name string, m *bus.Message) error {
	if s.away || s.refuses || m.After != nil && m.After.Seq != uint64(len(s.ids)) {
		return errAway
	}
	if name != service.ReceiptsStream || m.Subject != "lin.h.web1.receipt" {
		return fmt.Errorf("stored %s in %s", m.Subject, name)
	}
	s.ids, s.body = append(s.ids, m.ID), m.Body
	if s.unsaid > 0 {
		s.unsaid--
		return errAway
	}
	return nil
}

// Last is what the stream has last, or had before if a server answers that lags behind.
func (s *stream) Last(context.Context, string, string) (*bus.Place, error) {
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

// past is a daemon whose history has receipts, and what brings them into a stream, which can be killed at any point.
type past struct {
	rapid.TB
	apitest.Client
	stream   stream
	receipts []api.Receipt
	dir      string
	*Receipts
}

func newPast(t rapid.TB, dir string) *past {
	p := &past{TB: t, dir: dir}
	p.Has.Policy, p.On.History = hiding("hush"), p.history
	p.start()
	return p
}

// start begins as after a SIGKILL: nothing is kept but the files.
func (p *past) start() {
	p.Helper()
	if p.Receipts != nil {
		p.Store.Close()
	}
	store, err := OpenStore(p.dir)
	require.NoError(p, err)
	p.Receipts = &Receipts{Stream: &p.stream, Store: store, Host: "web1", Log: zerolog.Nop(), Dial: func(context.Context) (api.Client, error) { return &p.Client, nil }}
	require.NoError(p, p.Open())
}

func (p *past) end() {
	id := strconv.Itoa(len(p.receipts))
	p.receipts = append(p.receipts, api.Receipt{ID: id, Report: &api.Report{Session: id, Verdict: api.VerdictClean,
		Processes: []api.Outcome{{Argv: []string{"x", "hush"}}}}})
}

func (p *past) history(q api.HistoryQuery) (*api.Sessions, error) {
	at, err := len(p.receipts), error(nil)
	if q.After != "now" {
		at, err = strconv.Atoi(q.After)
	}
	d := &api.Sessions{Next: strconv.Itoa(at)}
	if at < len(p.receipts) {
		d.Receipt, d.Next = &p.receipts[at], strconv.Itoa(at+1)
	}
	return d, errors.Join(err, p.Refuse)
}

// look takes the next step, which may fail.
func (p *past) look() (more bool, err error) { return p.next(context.Background(), &p.Client) }

// TestOnce: whatever fails, in whatever order, and whenever the exporter is killed: in the end the stream has
// each receipt once, though it recognises no repeat.
func TestOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "lngtest-once-")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		p := newPast(t, dir)
		defer func() { p.Store.Close() }()
		_, err = p.look()
		require.NoError(t, err)
		gone := dir + ".gone"
		back := func() { _ = os.Rename(gone, dir) }
		defer os.RemoveAll(gone)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"end", "look", "kill", "kill between", "daemon", "server", "refuse",
				"lose an answer", "lag", "disk"}).Draw(t, "step") {
			case "end":
				p.end()
			case "look":
				_, _ = p.look()
			case "kill":
				back()
				p.start()
			case "kill between": // the receipt is stored, and the cursor is not written
				if os.Rename(dir, gone) == nil {
					_, _ = p.look()
				}
				back()
				p.start()
			case "daemon":
				p.Refuse = map[bool]error{true: errAway}[p.Refuse == nil]
			case "server":
				p.stream.away = !p.stream.away
			case "refuse":
				p.stream.refuses = !p.stream.refuses
			case "lose an answer":
				p.stream.unsaid++
			case "lag":
				p.stream.lags = true
			case "disk":
				if os.Rename(dir, gone) != nil {
					back()
				}
			}
		}
		back()
		p.Refuse, p.stream = nil, stream{ids: p.stream.ids}
		for more := true; more; {
			more, err = p.look()
			require.NoError(t, err)
		}
		require.Equal(t, len(p.stream.ids), len(p.receipts))
		for i, id := range p.stream.ids {
			require.Equal(t, id, "web1/"+strconv.Itoa(i))
		}
	})
}

// TestUnwritten: a receipt that is stored while the cursor cannot be written is not stored again.
func TestUnwritten(t *testing.T) {
	p := newPast(t, t.TempDir())
	defer func() { p.Store.Close() }()
	_, err := p.look()
	require.NoError(t, err)
	p.end()
	require.NoError(t, os.Rename(p.dir, p.dir+".gone"))
	if _, err := p.look(); err == nil || len(p.stream.ids) != 1 {
		t.Errorf("%v, %v", p.stream.ids, err)
	}
	require.NoError(t, os.Rename(p.dir+".gone", p.dir))
	more, err := p.look()
	require.NoError(t, err)
	if !more || len(p.stream.ids) != 1 {
		t.Error(p.stream.ids)
	}
}

// TestReceipt: the message is what the daemon says, without secrets.
func TestReceipt(t *testing.T) {
	p := newPast(t, t.TempDir())
	defer p.Store.Close()
	_, _ = p.look()
	p.receipts = []api.Receipt{{ID: "s00000-10@7", Report: &api.Report{Session: "s00000", Verdict: api.VerdictClean,
		Processes: []api.Outcome{{Argv: []string{"x", "hush"}}}}}}
	if more, err := p.look(); !more || err != nil {
		t.Fatal(err)
	}
	var m service.Receipt
	require.NoError(t, json.Unmarshal(p.stream.body, &m))
	require.Equal(t, p.stream.ids[0], "web1/s00000-10@7")
	if m.Kind != "receipt" || m.Host != "web1" || m.ID != "s00000-10@7" || m.Report == nil || m.Report.Verdict != api.VerdictClean ||
		bytes.Contains(p.stream.body, []byte("hush")) {
		t.Errorf("%s", p.stream.body)
	}
	p.Has.Policy = nil
	p.Client.On.Policy = func() (*api.Policy, error) { return nil, errAway }
	p.end()
	if _, err := p.look(); err == nil || len(p.stream.ids) != 1 {
		t.Errorf("it is not known what is secret: %v, %v", err, p.stream.ids)
	}
}

// TestCursor: a cursor that is damaged is named.
func TestCursor(t *testing.T) {
	p := newPast(t, t.TempDir())
	defer p.Store.Close()
	for _, text := range []string{"", "{", `{"schema":"lineage-export/1","after":"1"}`, `{"schema":"lineage-receipts/1"}`} {
		require.NoError(t, os.WriteFile(p.dir+"/nats.cursor", []byte(text), 0o600))
		require.Contains(t, fmt.Sprint(p.Open()), "/nats.cursor: ", "remove it to begin with what happens now")
	}
}

// TestLarge: a receipt that is too large for a message is shortened, and says so.
func TestLarge(t *testing.T) {
	d := &api.Report{Session: "aaaaaa", Verdict: api.VerdictLeft}
	noise := rapid.SliceOfN(rapid.Byte(), 2000, 2000)
	for n := range 1000 {
		d.Processes = append(d.Processes, api.Outcome{Argv: []string{fmt.Sprintf("%x", noise.Example(n))}})
	}
	receipt, err := json.Marshal(&api.CommandReceipt{ID: "c", Sessions: []string{"aaaaaa"}, Complete: true, Reports: []api.Report{*d}})
	require.NoError(t, err)
	for _, r := range []*api.Receipt{{Report: d}, {Command: &api.CommandReply{Receipt: string(receipt), Signature: "s", HostKey: "k"}}} {
		var x bus.Message
		var m service.Receipt
		require.NoError(t, encode(&x, "web1", r), json.Unmarshal(x.Body, &m))
		if !m.Shortened || len(x.Body) > 4096 || m.Report != nil && (!m.Report.Truncated || m.Report.Verdict != api.VerdictLeft) {
			t.Errorf("%d bytes: %.300s", len(x.Body), x.Body)
		}
		if c := m.Command; c != nil && (c.Signature != "" || !strings.Contains(c.Receipt, `"sessions":["aaaaaa"],"complete":true`) ||
			strings.Contains(c.Receipt, "reports")) {
			t.Errorf("%.300s", x.Body)
		}
	}
}

// TestSaidOnce: as long as receipts cannot be stored the log has one line, and one when that is over.
func TestSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast(t, t.TempDir())
		defer p.Store.Close()
		var log bytes.Buffer
		p.Receipts.Log = zerolog.New(&log)
		run := func(d time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			p.Run(ctx)
		}
		run(time.Second)
		p.stream.away = true
		p.end()
		run(10 * time.Minute)
		p.stream.away = false
		run(longestPause * 2)
		if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "stored again") || len(p.stream.ids) != 1 {
			t.Errorf("%v, %s", p.stream.ids, text)
		}
	})
}
