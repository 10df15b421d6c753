//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// crowd is a server of packaging/nats with LNGTEST_HOSTS hosts: the link's connection, and its answers with what the daemon of the
// world tells root.
type crowd struct {
	*world
	names []string
	buses []*bus.Bus
}

// TestSilent: of many hosts those that are cut off are named, and no other, and once they are back all answer.
func TestSilent(t *testing.T) {
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
	c.daemon()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer func() { stop(); running.Wait() }()
	empty, connecting := c.rss(), time.Now()
	c.link(ctx, &running)
	c.present(n)
	t.Logf("figure: %d hosts connected in %.1f s; server VmRSS %d MiB before, %d MiB after", n, time.Since(connecting).Seconds(), empty>>10, c.rss()>>10)
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
	c := &crowd{world: &world{Instance: stage.New(t), port: free(t)}}
	for i := range n {
		c.names = append(c.names, fmt.Sprintf("host%04d_example_org", i))
	}
	c.open(c.names)
	return c
}

// link has each host connect, 32 at the same time, and say that it is there.
func (c *crowd) link(ctx context.Context, running *sync.WaitGroup) {
	c.T.Helper()
	daemon := &apitest.Client{Has: apitest.Has{
		Version: &api.Version{Version: "1.2.3"}, Status: &api.Status{Level: 4, Mode: "enforce"},
		Sessions: []api.Session{{ID: "0a1b2c3d", State: api.StateActive, Live: 7}, {ID: "1a2b3c4d", State: api.StateActive, Live: 3}},
	}}
	c.buses = make([]*bus.Bus, len(c.names))
	places := make(chan struct{}, 32)
	var connecting sync.WaitGroup
	for i, name := range c.names {
		places <- struct{}{}
		connecting.Go(func() {
			defer func() { <-places }()
			b, err := bus.Connect(
				&service.LinkOptions{Servers: []string{c.url()}, Name: name, CA: filepath.Join(c.dir, "cert.pem"), Nkey: filepath.Join(c.dir, name+".seed")},
				"test",
				zerolog.Nop(),
			)
			if err != nil {
				c.T.Error(err)
				return
			}
			c.T.Cleanup(b.Close)
			h := bus.NewHost(c.Socket, zerolog.Nop())
			h.All = true
			if err := h.Serve(ctx, b, name); err != nil {
				c.T.Error(err)
			}
			c.buses[i] = b
			p := &bus.Presence{Store: b.Store, Host: name, Log: zerolog.Nop(), Dial: func(context.Context) (api.Client, error) { return daemon, nil }}
			running.Go(func() { p.Run(ctx) })
		})
	}
	connecting.Wait()
	if c.T.Failed() {
		c.T.FailNow()
	}
}

// present waits until that many hosts are there.
func (c *crowd) present(n int) {
	c.T.Helper()
	for began := time.Now(); c.list() < n; time.Sleep(200 * time.Millisecond) {
		if time.Since(began) > bus.PresenceTTL {
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
		require.NoError(c.T, c.ann.PublishRequest("$JS.API.DIRECT.GET."+service.HostsStream, answers.Subject,
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

func (c *crowd) rss() int {
	c.T.Helper()
	n, err := strconv.Atoi(strings.TrimSuffix(stage.ProcStatus(c.server.Process.Pid, "VmRSS"), " kB"))
	require.NoError(c.T, err)
	return n
}
