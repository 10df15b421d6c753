//go:build linux

package daemon

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// TestCrowdOfReaders: LNGTEST_CROWD readers of the events, a hundred without it,
// half of them stopped, while sessions come and go. Every end comes to its verdict, and memory stays within
// what the readers' lines and one ring may take. It prints what an end took;
// nothing is decided by that.
func TestCrowdOfReaders(t *testing.T) {
	readers, ends := 100, 5
	if text := os.Getenv("LNGTEST_CROWD"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		readers, ends = n, 100
	}
	took := func(w *world, base uint32) (all []time.Duration) {
		for n := range uint32(ends) {
			s := w.session("user", base+n*100, api.NewSession{GraceMS: ms(0)})
			for k := uint32(1); k < 50; k++ {
				w.k.Fork(base+n*100, base+n*100+k, "lngtest-x")
				w.k.Exec(base+n*100+k, "/bin/x", "x\x00--long-argument\x00")
			}
			began := time.Now()
			into[api.Report](w.do("user", "POST", "/v1/sessions/"+s.ID+"/end", api.EndRequest{Now: true}), http.StatusAccepted)
			if r := w.receipt(s.ID); r.Verdict != "clean" {
				t.Errorf("%+v", r)
			}
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		return all
	}
	w := newWorld(t, func(w *world) { w.h.limits.uidConns = 2 * readers })
	alone := took(w, 1000)
	for n := range readers {
		c, err := w.dial("root")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprint(c, "GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
		r := bufio.NewReader(c)
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(err, resp)
		}
		if n%2 == 0 {
			go swallow(c)
		}
	}
	before := inUse()
	crowded := took(w, 10000)
	grown := inUse() - before
	if limit := int64(readers)*(keptBuffer+64<<10) + 2*ringBytes; grown > limit {
		t.Errorf("the heap grew by %d KiB, allowed are %d", grown>>10, limit>>10)
	}
	p99 := func(d []time.Duration) time.Duration { return d[len(d)*99/100] }
	t.Logf("figure: end of 50 members: alone median %v p99 %v; %d readers median %v p99 %v; heap + %d KiB",
		alone[ends/2], p99(alone), readers, crowded[ends/2], p99(crowded), grown>>10)
}

func swallow(c net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}

// inUse is what is in use after a collection, in bytes.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}
