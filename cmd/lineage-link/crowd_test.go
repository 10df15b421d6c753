//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/asks"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/presence"
	"github.com/lineage-ebpf/lineage/cmd/lineage/link"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// crowd is a server of packaging/nats with LNGTEST_HOSTS hosts: the link's connection, subscriptions and presence, without
// a daemon.
type crowd struct {
	*world
	http    int // port
	names   []string
	buses   []*bus.Bus
	changed []chan struct{}
	asked   bool // the hosts answer questions, with what the daemon of the world tells root
}

// TestCrowd measures what hosts cost a server: memory, messages and bytes a second, and how they come back.
func TestCrowd(t *testing.T) {
	n := stage.FromEnv(t, "LNGTEST_HOSTS", 0)
	if n == 0 {
		t.Skip("LNGTEST_HOSTS is not set: make crowd")
	}
	var files syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	if n > 5000 || files.Max < uint64(n)+500 {
		t.Fatalf("%d hosts: at most 5,000, and 500 fewer than ulimit -Hn, which is %d", n, files.Max)
	}
	c := newCrowd(t, n)
	empty := c.rss()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer func() { stop(); running.Wait() }()
	began := time.Now()
	c.link(ctx, &running)
	c.present(n)
	t.Logf("figure: %d hosts connected in %.1f s; server VmRSS %d MiB before, %d MiB after", n, time.Since(began).Seconds(), empty>>10, c.rss()>>10)

	c.measure("no host changes", presence.TTL*2/3)
	var busy atomic.Bool
	busy.Store(true)
	running.Go(func() { c.change(ctx, &busy) })
	c.measure("each host changes all the time", 20*time.Second)
	busy.Store(false)

	began = time.Now()
	require.Equal(t, c.list(), n)
	t.Logf("figure: an operator reads the presence of %d hosts in %d ms", n, time.Since(began).Milliseconds())
	c.askAll()

	c.stopServer()
	c.serve()
	c.comeBack()
	c.present(n)
}

// TestSilent: of many hosts those that are cut off are named, and no other, and once they are back all answer.
func TestSilent(t *testing.T) {
	n := stage.FromEnv(t, "LNGTEST_HOSTS", 0)
	if n == 0 {
		t.Skip("LNGTEST_HOSTS is not set: make crowd")
	}
	n = min(n, 500)
	c := newCrowd(t, n)
	c.asked = true
	c.daemon()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer func() { stop(); running.Wait() }()
	c.link(ctx, &running)
	c.present(n)
	// silent asks all hosts, and returns those that do not answer.
	silent := func(what string) (names []string) {
		t.Helper()
		var doc struct{ Items []answer }
		began := time.Now()
		p := stage.Start(t, c.Command([]string{"ls", "-H", "@all", "-o", "json"}, []string{"LINEAGE_SOCKET=", c.groups(t.TempDir())})).Wait()
		took := time.Since(began)
		require.NoError(t, json.Unmarshal(p.Out.Bytes(), &doc))
		require.Equal(t, len(doc.Items), n)
		for _, a := range doc.Items {
			if a.Exit == api.ExitUnreachable {
				names = append(names, strings.ReplaceAll(a.Host, ".", "_"))
			} else if a.Exit != 0 {
				t.Errorf("%+v", a)
			}
		}
		t.Logf("figure: ls over %d hosts, %s: %d named as silent, %.2f s", n, what, len(names), took.Seconds())
		return names
	}
	if names := silent("all there"); len(names) != 0 {
		t.Errorf("silent: %v", names)
	}
	var cut []string
	for i := 0; i < n; i += 10 {
		cut = append(cut, c.names[i])
		c.buses[i].Close()
	}
	if names := silent("a tenth cut off"); !slices.Equal(slices.Sorted(slices.Values(names)), cut) {
		t.Errorf("silent: %v, want %v", names, cut)
	}
	all := c.names
	c.names = cut
	began := time.Now()
	c.link(ctx, &running)
	c.names = all
	if names := silent("all there again"); len(names) != 0 {
		t.Errorf("silent: %v", names)
	}
	require.Equal(t, c.list(), n)
	t.Logf("figure: back and listed after %.1f s", time.Since(began).Seconds())
}

func newCrowd(t *testing.T, n int) *crowd {
	t.Helper()
	c := &crowd{world: &world{Instance: stage.New(t), port: free(t)}, http: free(t)}
	for i := range n {
		c.names = append(c.names, fmt.Sprintf("host%04d_example_org", i))
	}
	c.open(c.names, fmt.Sprintf("http: \"127.0.0.1:%d\"\n", c.http))
	return c
}

// link has each host connect, 32 at the same time, and say that it is there.
func (c *crowd) link(ctx context.Context, running *sync.WaitGroup) {
	c.T.Helper()
	daemon := &apitest.Client{Has: apitest.Has{
		Version: &api.Version{Version: "1.2.3"}, Status: &api.Status{Level: 4, Mode: "enforce"},
		Sessions: []api.Session{{ID: "0a1b2c3d", State: api.StateActive, Live: 7}, {ID: "1a2b3c4d", State: api.StateActive, Live: 3}},
	}}
	c.buses, c.changed = make([]*bus.Bus, len(c.names)), make([]chan struct{}, len(c.names))
	places := make(chan struct{}, 32)
	var connecting sync.WaitGroup
	for i, name := range c.names {
		places <- struct{}{}
		connecting.Go(func() {
			defer func() { <-places }()
			b, err := bus.Connect(&link.Options{Servers: []string{c.url()}, Name: name, CA: filepath.Join(c.dir, "cert.pem"), Nkey: filepath.Join(c.dir, name+".seed")}, "test", zerolog.Nop())
			if err != nil {
				c.T.Error(err)
				return
			}
			c.T.Cleanup(b.Close)
			back := func(m *bus.Message) { _ = b.Answer(m, &bus.Message{Body: m.Body}) }
			tell := back
			if c.asked {
				a := asks.New(c.Socket)
				tell = func(m *bus.Message) {
					a.Take(ctx, m.Body, m.Asker(), func(answer *bus.Message) error { return b.Answer(m, answer) })
				}
			}
			if err := errors.Join(b.Subscribe(link.CommandSubject(name), back), b.Subscribe(link.AskSubject(name), tell)); err != nil {
				c.T.Error(err)
			}
			c.buses[i], c.changed[i] = b, make(chan struct{}, 1)
			p := &presence.Presence{Keys: b, Host: name, Changed: c.changed[i], Log: zerolog.Nop(), Dial: func(context.Context) (api.Client, error) { return daemon, nil }}
			running.Go(func() { p.Run(ctx) })
		})
	}
	connecting.Wait()
	if c.T.Failed() {
		c.T.FailNow()
	}
}

// change has each host change, until ctx is done, while busy says so.
func (c *crowd) change(ctx context.Context, busy *atomic.Bool) {
	for busy.Load() && ctx.Err() == nil {
		for _, changed := range c.changed {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// present waits until that many hosts are there.
func (c *crowd) present(n int) {
	c.T.Helper()
	for began := time.Now(); c.list() < n; time.Sleep(200 * time.Millisecond) {
		if time.Since(began) > presence.TTL {
			c.T.Fatalf("there are %d hosts of %d", c.list(), n)
		}
	}
}

// list counts the hosts that are there, as an operator does: 1,000 with each request.
func (c *crowd) list() (n int) {
	c.T.Helper()
	answers, err := c.ann.SubscribeSync(c.ann.NewInbox())
	require.NoError(c.T, err)
	defer answers.Unsubscribe()
	for next := 1; ; {
		require.NoError(c.T, c.ann.PublishRequest("$JS.API.DIRECT.GET."+link.HostsStream, answers.Subject,
			fmt.Appendf(nil, `{"seq":%d,"next_by_subj":"$KV.LIN_HOSTS.*","batch":1000}`, next)))
		for {
			m, err := answers.NextMsg(stage.Patience)
			require.NoError(c.T, err)
			if seq, err := strconv.Atoi(m.Header.Get("Nats-Sequence")); err == nil {
				next = seq + 1
				n++
				continue
			}
			if more, _ := strconv.Atoi(m.Header.Get("Nats-Num-Pending")); more == 0 {
				return n
			}
			break
		}
	}
}

// askAll sends each host a message, and measures until all have answered.
func (c *crowd) askAll() {
	c.T.Helper()
	answers, err := c.ann.SubscribeSync(c.ann.NewInbox())
	require.NoError(c.T, err)
	defer answers.Unsubscribe()
	began := time.Now()
	for _, name := range c.names {
		require.NoError(c.T, c.ann.PublishRequest(link.CommandSubject(name), answers.Subject, make([]byte, 1024)))
	}
	for range c.names {
		_, err := answers.NextMsg(stage.Patience)
		require.NoError(c.T, err)
	}
	c.T.Logf("figure: %d hosts have answered a message of 1 KiB after %d ms", len(c.names), time.Since(began).Milliseconds())
}

// comeBack waits until each host has a connection again, and says when they had.
func (c *crowd) comeBack() {
	c.T.Helper()
	began := time.Now()
	after := make([]float64, 0, len(c.buses))
	seen := make([]bool, len(c.buses))
	for len(after) < len(c.buses) {
		for i, b := range c.buses {
			if !seen[i] && b.Up() {
				seen[i] = true
				after = append(after, time.Since(began).Seconds())
			}
		}
		if time.Since(began) > 3*bus.Longest {
			c.T.Fatalf("%d of %d hosts are back after %v", len(after), len(c.buses), time.Since(began))
		}
		time.Sleep(20 * time.Millisecond)
	}
	slices.Sort(after)
	most := 0
	for i := range after {
		second := 0
		for _, at := range after[i:] {
			if at < after[i]+1 {
				second++
			}
		}
		most = max(most, second)
	}
	at := func(share float64) float64 { return after[int(share*float64(len(after)-1))] }
	c.T.Logf("figure: after a restart of the server back: half after %.1f s, 99 of 100 after %.1f s, the last after %.1f s; at most %d in a second", at(0.5), at(0.99), at(1), most)
}

// counters are those of the server.
type counters struct {
	InMsgs   int64   `json:"in_msgs"`
	OutMsgs  int64   `json:"out_msgs"`
	InBytes  int64   `json:"in_bytes"`
	OutBytes int64   `json:"out_bytes"`
	Links    int     `json:"connections"`
	cpu      float64 // seconds
}

func (c *crowd) counters() (now counters) {
	c.T.Helper()
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/varz", c.http))
	require.NoError(c.T, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(c.T, err, json.Unmarshal(text, &now))
	stat := strings.Fields(string(require.ReadFile(c.T, fmt.Sprintf("/proc/%d/stat", c.server.Process.Pid))))
	for _, ticks := range stat[13:15] {
		n, err := strconv.Atoi(ticks)
		require.NoError(c.T, err)
		now.cpu += float64(n) / 100
	}
	return now
}

// measure says what the server has to do for a while.
func (c *crowd) measure(what string, d time.Duration) {
	c.T.Helper()
	before := c.counters()
	time.Sleep(d)
	after, s := c.counters(), d.Seconds()
	rate := func(a, b int64) float64 { return float64(b-a) / s }
	c.T.Logf("figure: %s: %d connections, %.0f messages/s and %.0f KiB/s in, %.0f messages/s and %.0f KiB/s out, %.1f %% of a CPU, VmRSS %d MiB", what, after.Links,
		rate(before.InMsgs, after.InMsgs), rate(before.InBytes, after.InBytes)/1024, rate(before.OutMsgs, after.OutMsgs), rate(before.OutBytes, after.OutBytes)/1024,
		(after.cpu-before.cpu)/s*100, c.rss()>>10)
}

// rss is the server's memory in KiB.
func (c *crowd) rss() int {
	c.T.Helper()
	n, err := strconv.Atoi(strings.TrimSuffix(stage.ProcStatus(c.server.Process.Pid, "VmRSS"), " kB"))
	require.NoError(c.T, err)
	return n
}
