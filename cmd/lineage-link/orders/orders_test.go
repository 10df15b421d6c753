//go:build linux

package orders

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/outbox"
	"github.com/lineage-ebpf/lineage/cmd/lineage/statedir"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// world is a daemon that accepts each command once, and a carrier, which a test may kill.
type world struct {
	*testing.T
	daemon *apitest.Client
	path   string
	dir    *statedir.Dir
	box    *outbox.Box
	log    bytes.Buffer
	*Carrier
	ctx  context.Context // until stop
	stop func()

	posts    atomic.Int64
	asked    atomic.Int64 // for receipts
	largest  atomic.Int64
	known    sync.Map // ids of accepted commands
	complete atomic.Bool
	away     atomic.Bool
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, path: t.TempDir()}
	w.complete.Store(true)
	w.daemon = &apitest.Client{On: apitest.On{
		Command: func(s api.SignedCommand) (*api.CommandReply, error) {
			w.posts.Add(1)
			w.largest.Store(max(w.largest.Load(), int64(len(s.Command))))
			var c api.Command
			_ = json.Unmarshal([]byte(s.Command), &c)
			if len(s.Signatures) == 0 {
				return nil, api.NewError(api.CodeDenied, "command refused: it has no signature; nothing was sent", "")
			}
			if _, repeat := w.known.LoadOrStore(c.ID, true); repeat {
				return nil, api.NewError(api.CodeDenied, "command refused: it was accepted before", "")
			}
			return w.receipt(c.ID, false), nil
		},
		Commanded: func(id string) (*api.CommandReply, error) {
			w.asked.Add(1)
			if _, ok := w.known.Load(id); !ok {
				return nil, api.NewError(api.CodeNotFound, "command not found", "")
			}
			return w.receipt(id, w.complete.Load()), nil
		},
	}}
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) receipt(id string, complete bool) *api.CommandReply {
	text, err := json.Marshal(&api.CommandReceipt{ID: id, Complete: complete})
	require.NoError(w, err)
	return &api.CommandReply{Receipt: string(text), Signature: "signed", HostKey: "SHA256:x"}
}

// start starts the carrier, as after a SIGKILL.
func (w *world) start() {
	w.Helper()
	w.open()
	w.run()
}

func (w *world) open() {
	w.Helper()
	var err error
	w.dir, err = statedir.Open(w.path)
	require.NoError(w, err)
	w.box, err = outbox.Open(w.dir, 1<<20)
	require.NoError(w, err)
	w.Carrier = &Carrier{Dir: w.dir, Box: w.box, Host: "web1", Log: zerolog.New(&w.log), Dial: func(context.Context) (api.Client, error) {
		if w.away.Load() {
			return nil, &api.UnreachableError{Socket: "s", Err: errors.New("away")}
		}
		return w.daemon, nil
	}}
	require.NoError(w, w.Open())
}

func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	w.ctx = ctx
	over := make(chan struct{})
	c := w.Carrier
	go func() { defer close(over); c.Run(ctx) }()
	w.stop = sync.OnceFunc(func() { cancel(); <-over; w.dir.Close() })
}

// take has a message taken, and returns why it was refused; nil: it was accepted.
func (w *world) take(message []byte) (why *api.Error) {
	w.Helper()
	w.Take(w.ctx, message, func(ctx context.Context) (int, error) {
		if w.away.Load() {
			why = api.NewError(api.CodeStopping, "away", "")
			return 0, errors.New("away")
		}
		var s api.SignedCommand
		require.NoError(w, json.Unmarshal(message, &s))
		if _, err := w.daemon.Command(ctx, s); errors.As(err, &why) {
			return why.Status(), nil
		}
		return http.StatusAccepted, nil
	}, func(err error) { errors.As(err, &why) })
	return why
}

// accepted fails unless a message is accepted.
func (w *world) accepted(message []byte) {
	w.Helper()
	if why := w.take(message); why != nil {
		w.Fatal(why)
	}
}

func message(t *testing.T, id string, edit func(*api.SignedCommand)) []byte {
	s := api.SignedCommand{Command: fmt.Sprintf(`{"v":1,"id":%q,"verb":"whatever"}`, id), Signatures: []string{"s"}}
	if edit != nil {
		edit(&s)
	}
	text, err := json.Marshal(&s)
	require.NoError(t, err)
	return text
}

const id = "00112233445566778899aabbccddeeff"

// TestTake: the receipt of a command goes into the outbox, once; a repeat is refused with the words of the daemon.
func TestTake(t *testing.T) {
	w := newWorld(t)
	w.accepted(message(t, id, nil))
	require.Eventually(t, "receipt", func() bool { return w.box.Has("command-" + id) })
	require.Eventually(t, "note removed", func() bool { notes, _ := filepath.Glob(w.path + "/*.await"); return len(notes) == 0 })
	if why := w.take(message(t, id, nil)); why == nil || why.Code != api.CodeDenied || !strings.Contains(why.Message, "accepted before") {
		t.Errorf("repeat: %+v", why)
	}
	item, err := w.box.First()
	require.NoError(t, err)
	require.Contains(t, string(item.Body), `"kind":"receipt"`, `"host":"web1"`, `"signature":"signed"`, `\"complete\":true`)
	if n, _ := w.box.Size(); n != 1 {
		t.Errorf("%d receipts", n)
	}
}

// TestKilled: the receipt comes after the link was killed while it waited, and after the daemon was away.
func TestKilled(t *testing.T) {
	w := newWorld(t)
	w.complete.Store(false)
	w.accepted(message(t, id, nil))
	if w.take(message(t, id, nil)) == nil { // a repeat must not take the note away
		t.Error("a repeat is accepted")
	}
	w.stop()
	w.away.Store(true)
	w.complete.Store(true)
	w.start()
	other := strings.Repeat("ab", 16)
	w.take(message(t, other, nil))
	w.known.Store(other, true) // it had been accepted after all
	w.away.Store(false)
	require.Eventually(t, "receipts", func() bool { return w.box.Has("command-"+id) && w.box.Has("command-"+other) })
}

// TestRepeatedWithoutDaemon: a command comes again while the daemon is away, after its receipt has left the
// outbox. The receipt does not come again, also not after the link was killed.
func TestRepeatedWithoutDaemon(t *testing.T) {
	w := newWorld(t)
	notes := func(kind string) int { all, _ := filepath.Glob(w.path + "/*." + kind); return len(all) }
	w.accepted(message(t, id, nil))
	require.Eventually(t, "receipt", func() bool { return w.box.Has("command-"+id) && notes("await") == 0 })
	_, err := w.box.First()
	require.NoError(t, err, w.box.Remove())
	for range 2 {
		w.away.Store(true)
		w.take(message(t, id, nil))
		w.away.Store(false)
		time.Sleep(retryTime + retryTime/2) // nothing is to be seen
		if w.box.Has("command-" + id) {
			t.Fatal("the receipt came again")
		}
		w.stop()
		w.start()
	}
	require.Equal(t, notes("done"), 1)
	old := time.Now().Add(-3 * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(w.path, id+".done"), old, old))
	w.stop()
	w.start()
	require.Equal(t, notes("done"), 0)
}

// TestTakenFirst: a command that comes before the carrier runs is waited for once, as any other.
func TestTakenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.stop()
		w.complete.Store(false)
		w.open()
		w.ctx = t.Context()
		w.accepted(message(t, id, nil))
		w.run()
		time.Sleep(10*retryTime + retryTime/2)
		require.Equal(t, w.asked.Load(), 11)
	})
}

// TestUnknown: a command that the daemon does not know is asked for a while only.
func TestUnknown(t *testing.T) {
	w := newWorld(t)
	fresh, err := w.note(id)
	require.NoError(t, err)
	require.Equal(t, fresh, true)
	for _, age := range []time.Duration{0, unknownTime + time.Second} {
		over, err := w.ask(t.Context(), id, time.Now().Add(-age))
		require.NoError(t, err)
		require.Equal(t, over, age > 0)
	}
}

// TestHostile: what cannot be a command does not reach the daemon; a flood is a few lines.
func TestHostile(t *testing.T) {
	w := newWorld(t)
	good := message(t, id, nil)
	for name, c := range map[string]struct {
		message []byte
		why     string
	}{
		"nothing":           {nil, "it is not JSON"},
		"garbage":           {[]byte("\x00\xff{"), "it is not JSON"},
		"cut off":           {good[:len(good)-3], "it is not JSON"},
		"oversize":          {bytes.Repeat([]byte("x"), 64<<10+1), "more than 64 KiB"},
		"a large command":   {message(t, id, func(s *api.SignedCommand) { s.Command = strings.Repeat("x", api.MaxCommand+1) }), "more than 16 KiB"},
		"nine signatures":   {message(t, id, func(s *api.SignedCommand) { s.Signatures = make([]string, 9) }), "8 signatures"},
		"a large signature": {message(t, id, func(s *api.SignedCommand) { s.Signatures = []string{strings.Repeat("x", api.MaxSignature+1)} }), "a signature of more than 4 KiB"},
		"no command":        {message(t, id, func(s *api.SignedCommand) { s.Command = "" }), "its text is not JSON"},
		"an id with a path": {message(t, "../../../../../../../etc/cron.d/x", nil), "32 hexadecimal digits"},
		"a short id":        {message(t, "0011", nil), "32 hexadecimal digits"},
		"an upper-case id":  {message(t, strings.ToUpper(id), nil), "32 hexadecimal digits"},
		"an array":          {[]byte(`[{}]`), "it is not JSON"},
		"deep":              {[]byte(strings.Repeat("[", 20000)), "it is not JSON"},
	} {
		if why := w.take(c.message); why == nil || why.Code != api.CodeBadRequest || !strings.Contains(why.Message, c.why) {
			t.Errorf("%s: %+v", name, why)
		}
	}
	require.Equal(t, w.posts.Load(), 0)
	for n := range 2000 {
		unsigned := message(t, fmt.Sprintf("%032x", n), func(s *api.SignedCommand) { s.Signatures = nil })
		if why := w.take(unsigned); why == nil || why.Code != api.CodeDenied {
			t.Fatalf("%+v", why)
		}
	}
	require.Equal(t, w.posts.Load(), 2000)
	if lines := strings.Count(w.log.String(), "\n"); lines > 3 {
		t.Errorf("%d lines: %.500s", lines, w.log.String())
	}
	notes, err := filepath.Glob(w.path + "/*.await")
	require.NoError(t, err)
	require.Equal(t, len(notes), 0)
	if n, _ := w.box.Size(); n != 0 || w.largest.Load() > api.MaxCommand {
		t.Errorf("%d receipts, a command of %d bytes", n, w.largest.Load())
	}
}

// TestTooMany: commands that are not over are bounded; one more is refused before the daemon gets it.
func TestTooMany(t *testing.T) {
	w := newWorld(t)
	w.complete.Store(false)
	for n := range maxAwaited {
		w.accepted(message(t, fmt.Sprintf("%032x", n), nil))
	}
	if why := w.take(message(t, id, nil)); why == nil || why.Code != api.CodeTooMany || w.posts.Load() != maxAwaited {
		t.Errorf("%+v after %d", why, w.posts.Load())
	}
}
