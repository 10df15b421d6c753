//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// commanded is a world with an operator.
type commanded struct {
	*world
	key string
}

func newCommanded(t *testing.T) *commanded {
	t.Helper()
	c := &commanded{key: newKey(t)}
	c.world = newWorld(t, operated, c.knows)
	return c
}

// newKey makes the SSH key of an operator.
func newKey(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "ann")
	stage.Key(t, file)
	return file
}

// operated is the policy of a host that knows the operator.
const operated = "operators: [{name: ann, verbs: end}]\n"

func (c *commanded) knows(w *world) { w.Operators(c.key) }

func (c *commanded) sign(session string, flags ...string) []byte {
	c.T.Helper()
	file := filepath.Join(c.T.TempDir(), "command")
	c.Must(append([]string{"end", session, "--yes", "--sign", c.key, "--reason", "test", "--save", file}, flags...)...)
	return require.ReadFile(c.T, file)
}

// run starts a session that lives until it is ended.
func (c *commanded) run(name string, flags ...string) (id string) {
	c.T.Helper()
	c.Start(append(append([]string{"run", "--name", name}, flags...), "--", "sleep", "6000"), nil)
	c.Until("session "+name, func() bool { return c.Lineage("tree", name).Code() == 0 })
	return c.Session(name).ID
}

func (c *commanded) send(message []byte) *nats.Subscription {
	c.T.Helper()
	inbox := c.ann.NewInbox()
	s, err := c.ann.SubscribeSync(inbox)
	require.NoError(c.T, err, c.ann.PublishRequest(service.CommandSubject("web1"), inbox, message), c.ann.Flush())
	return s
}

func (c *commanded) next(s *nats.Subscription) (status string, text string) {
	c.T.Helper()
	m, err := s.NextMsg(stage.Patience)
	require.NoError(c.T, err)
	return m.Header.Get(service.StatusHeader), string(plain(c.T, m))
}

func (c *commanded) accepted(message []byte) (d api.CommandReply) {
	c.T.Helper()
	status, text := c.next(c.send(message))
	require.Equal(c.T, status, "202")
	require.NoError(c.T, json.Unmarshal([]byte(text), &d))
	return d
}

// connected waits until the link takes commands.
func (c *commanded) connected() {
	c.T.Helper()
	c.Until("connection of the link", func() bool {
		m, err := c.ann.Request(service.CommandSubject("web1"), nil, time.Second)
		return err == nil && strings.Contains(string(m.Data), "not a signed command")
	})
}

func receipt(t *testing.T, d *api.CommandReply) (r api.CommandReceipt) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(d.Receipt), &r))
	return r
}

// TestCommand: a command comes over the bus and ends a session once; the receipt is in the
// stream, also if link and exporter are killed between.
func TestCommand(t *testing.T) {
	c := newCommanded(t)
	c.connected()
	id := c.run("lngtest-a", "--grace", "0s")
	message := c.sign(id)
	if d := c.accepted(message); !strings.Contains(d.Receipt, id) {
		t.Fatalf("%+v", d)
	}
	if status, text := c.next(c.send(message)); status != "403" || !strings.Contains(text, "accepted before") {
		t.Errorf("repeat: %s %s", status, text)
	}
	slow := c.run("lngtest-b", "--grace", "2s")
	c.accepted(c.sign(slow, "--grace", "2s"))
	c.kill()
	c.killExport()
	c.start()
	c.export()
	want := map[string]int{}
	c.Until("receipts in the stream", func() bool {
		clear(want)
		for _, r := range c.receipts() {
			if r.Command != nil {
				d := receipt(t, r.Command)
				want[d.Sessions[0]]++
				if !d.Complete || r.Shortened {
					t.Errorf("%+v", r)
				}
			}
		}
		return len(want) == 2
	})
	if want[id] != 1 || want[slow] != 1 {
		t.Errorf("receipts: %v", want)
	}
}

// memory is the most that the link had resident, and what it has now, in KiB.
func (w *world) memory() (peak, now int) {
	w.T.Helper()
	for line := range strings.Lines(string(require.ReadFile(w.T, fmt.Sprintf("/proc/%d/status", w.links.Process.Pid)))) {
		key, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch key {
		case "VmHWM":
			peak = n
		case "VmRSS":
			now = n
		}
	}
	return peak, now
}
