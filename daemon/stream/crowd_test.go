//go:build linux

package stream_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/stream"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// perReader is the heap that one reader may take, in bytes: what it writes next,
// net/http's buffers, and what this test reads it with.
const perReader = 2*stream.WriteSize + 32<<10

// TestCrowdOfReaders: LNGTEST_CROWD readers of the events, a hundred without it, half
// of them stopped, while sessions come and go. Every end reaches its verdict; each
// reader that reads gets all lines, in order, or is told what it lost, and gets no
// command line that it may not read; the stopped ones are closed, and counted; and
// memory stays within what the readers' lines and one ring may take. It prints how long
// an end took, but does not check it.
func TestCrowdOfReaders(t *testing.T) {
	const ends, members = 100, 10
	readers := 100
	if text := os.Getenv("LNGTEST_CROWD"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		readers = n
	}
	stall := require.Slowed(time.Duration(max(2, readers/100)) * time.Second)
	w := daemontest.New(t, func(w *daemontest.Daemon) { w.Host.Limits.UIDConns, w.Host.Limits.Stall = 2*readers, stall })
	took := func(base uint32) (all []time.Duration) {
		for n := range uint32(ends) {
			root := base + n*members
			s := w.Session("user", root, api.NewSession{GraceMS: daemontest.MS(0)})
			for k := uint32(1); k < members; k++ {
				w.K.Fork(root, root+k, "lngtest-x")
				w.K.Exec(root+k, "/bin/x", "x\x00--long-argument\x00")
			}
			began := time.Now()
			if r := w.End("user", s.ID); r.Verdict != "clean" || len(r.Processes) != members {
				t.Errorf("%+v", r)
			}
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		return all
	}
	// With that many PIDs one would sometimes be this process's: start above all real ones.
	const (
		first = daemontest.Self + 1
		last  = first + 2*ends*members
	)
	alone := took(first)
	w.K.AllRead()
	from := w.Service.Ring.End()
	before := inUse()
	var crowd sync.WaitGroup
	counts := make([]readCount, readers)
	for n := range readers {
		who := []string{"root", "reader"}[n/2%2] // a reader of another uid gets command lines redacted
		r := reads(w, who)
		if n%2 == 0 {
			counts[n].at.Store(from)
			crowd.Go(func() { counts[n].follow(r) })
		}
	}
	crowded := took(first + ends*members)
	grown := inUse() - before
	if limit := int64(readers)*perReader + 2*history.Bytes; grown > limit {
		t.Errorf("the heap grew by %d KiB, allowed are %d", grown>>10, limit>>10)
	}
	// More than the kernel buffers for a reader that does not read.
	s := w.Session("user", last, api.NewSession{})
	long := strings.Repeat("a", 3000) + "\x00"
	w.Until(func() bool {
		for range 20 {
			w.K.Exec(last, "/bin/a", long)
		}
		w.K.AllRead()
		return w.Status().Counters["readers_dropped"] >= uint64(readers/2)
	})
	if r := daemontest.Get[api.Session](w, "user", "/v1/sessions/"+s.ID); r.Live != 1 {
		t.Errorf("%+v", r)
	}
	end := w.Service.Ring.End()
	for n := range counts {
		w.Until(func() bool { return n%2 != 0 || counts[n].at.Load() >= end || counts[n].over.Load() })
	}
	if n := w.Status().Counters["readers_dropped"]; n != uint64(readers/2) {
		t.Errorf("%d readers were dropped, want the %d stopped ones", n, readers/2)
	}
	go w.Stop()
	crowd.Wait()
	for n := range counts {
		c := &counts[n]
		if n%2 == 0 && (c.err != nil || c.at.Load() != end || !c.argv || c.read+c.lost != end-from) {
			t.Errorf("reader %d: %d read and %d lost to %d, command lines %v, %v; want all from %d to %d",
				n, c.read, c.lost, c.at.Load(), c.argv, c.err, from, end)
		}
	}
	p99 := func(d []time.Duration) time.Duration { return d[len(d)*99/100] }
	t.Logf("figure: end of %d members: alone median %v p99 %v; %d readers median %v p99 %v; %d events; heap + %d KiB",
		members, alone[ends/2], p99(alone), readers, crowded[ends/2], p99(crowded), end-from, grown>>10)
}

// reads begins to read the events from now on, and stops after the headers.
func reads(w *daemontest.Daemon, who string) *http.Response {
	w.Helper()
	c, err := w.Dial(who)
	require.NoError(w, err)
	w.Cleanup(func() { c.Close() })
	fmt.Fprint(c, "GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		w.Fatal(err, resp)
	}
	return resp
}

// readCount is what one reader got.
type readCount struct {
	at         atomic.Uint64 // the number expected next
	read, lost uint64
	argv       bool // a command line was among it
	over       atomic.Bool
	err        error
}

// follow reads to the end of a stream and counts. A line is not decoded: there
// are millions.
func (c *readCount) follow(resp *http.Response) {
	defer c.over.Store(true)
	r := bufio.NewReaderSize(resp.Body, 16<<10)
	for next := c.at.Load(); ; c.at.Store(next) {
		text, err := r.ReadSlice('\n')
		switch {
		case err != nil:
			c.err = err
			return
		case bytes.HasPrefix(text, []byte(`{"kind":"end","reason":"stopping"`)):
			return
		case bytes.HasPrefix(text, []byte(`{"kind":"heartbeat"`)):
			continue
		case field(text, `"where":"`) == "reader":
			first, _ := strconv.ParseUint(field(text, `"lost_from":"`), 10, 64)
			last, _ := strconv.ParseUint(field(text, `"lost_to":"`), 10, 64)
			if first != next || last < first {
				c.err = fmt.Errorf("expected %d: %s", next, text)
				return
			}
			c.lost += last + 1 - first
			next = last + 1
		default:
			if field(text, `"seq":"`) != strconv.FormatUint(next, 10) {
				c.err = fmt.Errorf("expected %d: %s", next, text)
				return
			}
			c.read++
			next++
			c.argv = c.argv || bytes.Contains(text, []byte(`"argv":`))
		}
	}
}

// field is the text after a name, up to the next quote.
func field(text []byte, name string) string {
	_, after, _ := bytes.Cut(text, []byte(name))
	value, _, _ := bytes.Cut(after, []byte(`"`))
	return string(value)
}

// inUse is the heap in use after a collection, in bytes.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}
