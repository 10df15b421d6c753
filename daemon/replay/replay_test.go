package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

const recorded = `{"schema":"lineage/1","kind":"recording","boot_id":"b","version":"9.9.9","started":"2026-01-02T03:04:05Z"}
{"kind":"event","type":"session","session":"aaaaaa","name":"web","state":"active"}
{"kind":"process","pid":10,"start_ns":"100","session":"aaaaaa","comm":"agent","argv":["agent","-x"],"uid":1000,"state":"live","evidence":{"kind":"root","confidence":"strong"}}
{"kind":"event","seq":"1","time_ns":"1000000000","time":"2026-01-02T03:04:06Z","type":"fork","session":"aaaaaa","process":{"pid":11,"start_ns":"1000000000","comm":"agent","state":"live","creator":{"pid":10,"start_ns":"100"},"evidence":{"kind":"fork","confidence":"strong"}}}
{"kind":"event","seq":"2","time_ns":"1100000000","time":"2026-01-02T03:04:06.1Z","type":"fork","session":"aaaaaa","process":{"pid":12,"start_ns":"1100000000","comm":"agent","state":"live","creator":{"pid":11,"start_ns":"1000000000"},"evidence":{"kind":"fork","confidence":"strong"}}}
{"kind":"heartbeat","time_ns":"1150000000"}
{"kind":"event","seq":"3","time_ns":"1200000000","time":"2026-01-02T03:04:06.2Z","type":"exit","session":"aaaaaa","process":{"pid":11,"start_ns":"1000000000","state":"zombie","exit_code":3}}
{"kind":"event","seq":"4","time_ns":"1200000001","time":"2026-01-02T03:04:06.2Z","type":"reaped","session":"aaaaaa","process":{"pid":11,"start_ns":"1000000000","state":"exited"}}
{"kind":"event","seq":"5","time_ns":"1200000002","time":"2026-01-02T03:04:06.2Z","type":"lost","count":7,"where":"ring"}
{"kind":"event","seq":"6","time_ns":"40000000000","time":"2026-01-02T03:04:45Z","type":"exit","session":"aaaaaa","process":{"pid":12,"start_ns":"1100000000","state":"exited","signal":"SIGKILL"}}
`

// pictureOf is the state of a simple client.
type pictureOf struct {
	processes map[api.Ref]api.Process
	status    api.WatchStatus
	sessions  map[string]api.Session
}

func (p *pictureOf) apply(f *api.Frame) {
	if f.Kind == "snapshot" {
		*p = pictureOf{processes: map[api.Ref]api.Process{}, sessions: map[string]api.Session{}}
	}
	for _, r := range f.Remove {
		delete(p.processes, r)
	}
	for _, u := range f.Upsert {
		p.processes[u.Ref] = u
	}
	for _, s := range f.Sessions {
		p.sessions[s.ID] = s
	}
	if f.Status != nil {
		p.status = *f.Status
	}
}

// opened plays a recording at a speed until the test ends.
func opened(t *testing.T, in io.Reader, speed float64) *Player {
	t.Helper()
	r, err := Open(in, speed)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

func TestReplayAtOnce(t *testing.T) {
	ctx := t.Context()
	r := opened(t, strings.NewReader(recorded), 0)
	for range 2 { // nothing is counted twice
		trees := r.Trees()
		if len(trees) != 1 || len(trees[0].Nodes) != 3 || len(trees[0].Roots) != 1 {
			t.Fatalf("%+v", trees)
		}
	}
	s, err := r.Session(ctx, "aaaaaa")
	if err != nil || s.Name != "web" || s.Root == nil || s.Live != 1 || s.State != "active" {
		t.Errorf("%+v %v", s, err)
	}
	why, err := r.Why(ctx, "12")
	require.NoError(t, err)
	if p := why.Process; p.Signal != "SIGKILL" || p.Session != "aaaaaa" || len(p.Argv) != 2 {
		t.Errorf("%+v", p)
	}
	again, err := r.Why(ctx, "12@1100000000")
	if err != nil || len(again.Edges) != 3 || again.Edges[0].Creator.PID != 11 || again.Edges[0].Creator.Alive || again.Edges[2].Kind != "root" || again.Session.ID != "aaaaaa" {
		t.Errorf("%+v %v", again, err)
	}
	for _, word := range []string{"nosuch", ""} {
		if _, err := r.Session(ctx, word); codeOf(err) != api.CodeNotFound {
			t.Errorf("session %q: %v", word, err)
		}
	}
	if _, err := r.Why(ctx, "99"); codeOf(err) != api.CodeNotFound {
		t.Error(err)
	}
	if _, err := r.Why(ctx, "x"); codeOf(err) != api.CodeBadRequest {
		t.Error(err)
	}
}

func codeOf(err error) string {
	e, _ := errors.AsType[*api.Error](err)
	if e == nil {
		return ""
	}
	return e.Code
}

func TestReplayIsReadOnly(t *testing.T) {
	ctx := t.Context()
	r := opened(t, strings.NewReader(recorded), 0)
	for what, f := range map[string]func() error{
		"plan":   func() error { _, err := r.Plan(ctx, "aaaaaa"); return err },
		"end":    func() error { _, err := r.End(ctx, "aaaaaa", api.EndRequest{}); return err },
		"kill":   func() error { _, err := r.Kill(ctx, "10@100", api.KillRequest{Signal: "KILL"}); return err },
		"report": func() error { _, err := r.Report(ctx, "aaaaaa", 0); return err },
	} {
		if err := f(); codeOf(err) != api.CodeDenied || !strings.Contains(err.Error(), "a recording") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// watchReplay reads lines until right accepts the picture.
func watchReplay(t *testing.T, r *Player, q api.WatchQuery, right func(*pictureOf) bool) *pictureOf {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	enough := errors.New("enough")
	p := &pictureOf{}
	rev := api.U64(0)
	err := r.Watch(ctx, q, func(f *api.Frame) error {
		if f.Rev <= rev {
			t.Errorf("revision %d after %d", f.Rev, rev)
		}
		rev = f.Rev
		if p.apply(f); right(p) {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	return p
}

func TestReplayInTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recording")
	require.NoError(t, os.WriteFile(path, []byte(recorded), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	began := time.Now()
	r := opened(t, f, 4)
	p := watchReplay(t, r, api.WatchQuery{Session: "aaaaaa"}, func(p *pictureOf) bool { return p.processes[api.Ref{PID: 12, StartNS: 1100000000}].State == "exited" })
	if took := time.Since(began); took > time.Minute {
		t.Errorf("38 recorded seconds without an event took %v", took)
	}
	if len(p.processes) != 3 || !p.status.ReadOnly || p.status.Mode != "recording" || p.status.Forks != 2 || p.status.Lost != 7 {
		t.Errorf("%+v", p)
	}
	if s := p.sessions["aaaaaa"]; s.Live != 1 {
		t.Errorf("%+v", s)
	}
	if err := r.Watch(t.Context(), api.WatchQuery{Hz: 11}, nil); codeOf(err) != api.CodeBadRequest {
		t.Error(err)
	}
	if err := r.Watch(t.Context(), api.WatchQuery{Session: "nosuch"}, nil); codeOf(err) != api.CodeNotFound {
		t.Error(err)
	}
}

// pipe is a reader that cannot be read twice.
type pipe struct{ io.Reader }

func TestReplayRefuses(t *testing.T) {
	head, _, _ := strings.Cut(recorded, "\n")
	for name, c := range map[string]struct{ text, want string }{
		"empty":              {"", "not a recording"},
		"foreign":            {"hello\nworld\n", "not a recording"},
		"foreign JSON":       {`{"kind":"session"}` + "\n", "not a recording"},
		"a damaged line":     {head + "\n\n{{{\n", "line 3"},
		"a number":           {head + "\n" + `{"kind":"event","seq":1}` + "\n", "line 2"},
		"a line without end": {head + "\n" + strings.Repeat("x", api.MaxLine+1), "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, speed := range []float64{0, 1e9} {
				_, err := Open(strings.NewReader(c.text), speed)
				if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("speed %v: %v, want %q", speed, err, c.want)
				}
			}
		})
	}
	t.Run("cut off", func(t *testing.T) {
		for _, speed := range []float64{0, 1e9} {
			r := opened(t, strings.NewReader(recorded[:len(recorded)-20]), speed)
			<-r.done
			if !r.Cut() {
				t.Errorf("speed %v: it is whole", speed)
			}
			watchReplay(t, r, api.WatchQuery{}, func(p *pictureOf) bool { return len(p.processes) == 3 })
		}
	})
	t.Run("damaged where it was read once", func(t *testing.T) {
		r, err := Open(pipe{strings.NewReader(recorded + "{{{\n")}, 1e9)
		if err == nil { // it may be found before the view begins
			defer r.Close()
			err = r.Watch(t.Context(), api.WatchQuery{}, func(*api.Frame) error { return nil })
		}
		if err == nil || !strings.Contains(err.Error(), "line 11") {
			t.Error(err)
		}
	})
}

// FuzzReplay: any file is refused or played, and playing ends.
func FuzzReplay(f *testing.F) {
	f.Add([]byte(recorded))
	head, rest, _ := strings.Cut(recorded, "\n")
	f.Add([]byte(head + "\n"))
	f.Add([]byte(rest))
	for _, line := range []string{
		`{"kind":"process","pid":1,"start_ns":"1","session":"a","creator":{"pid":1,"start_ns":"1"}}`,
		`{"kind":"process","pid":1,"start_ns":"1","session":"a","creator":{"pid":2,"start_ns":"2"}}` + "\n" + `{"kind":"process","pid":2,"start_ns":"2","session":"a","creator":{"pid":1,"start_ns":"1"}}`,
		`{"kind":"event","type":"session","session":"\u001b[2J","state":"ended"}`,
		`{"kind":"event","type":"fork","time_ns":"18446744073709551615","process":{"pid":-1}}`,
		`{"kind":"event","type":"exit","time":"9999-12-31T23:59:59Z","process":{"pid":1,"session":"a"}}`,
	} {
		f.Add([]byte(head + "\n" + line + "\n"))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := Open(bytes.NewReader(file), 1e18)
		if err != nil {
			if strings.Contains(fmt.Sprintf("%q", err), `\n`) && !bytes.Contains(file, []byte("\n")) {
				t.Errorf("more than a line: %q", err)
			}
			return
		}
		defer r.Close()
		<-r.done
		for _, tree := range r.Trees() {
			seen := map[api.Ref]bool{}
			for _, n := range tree.Nodes {
				if seen[n.Ref] {
					t.Fatalf("%v twice", n.Ref)
				}
				seen[n.Ref] = true
				if _, err := r.Why(t.Context(), n.Ref.String()); err != nil && codeOf(err) == "" {
					t.Fatal(err)
				}
			}
		}
		enough := errors.New("enough")
		if err := r.Watch(t.Context(), api.WatchQuery{}, func(*api.Frame) error { return enough }); !errors.Is(err, enough) {
			t.Fatal(err)
		}
	})
}
