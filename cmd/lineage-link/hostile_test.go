//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// held is a command that the bus has, and does with what it likes.
type held struct {
	name, session, id string
	signed            api.SignedCommand
	counts            bool // it is valid, and the bus delivers it
	whole             bool // the bus delivers it unchanged
}

type hostile struct {
	*commanded
	keys map[string]string // files
	all  []*held
}

// TestHostileDelivery: the bus repeats, delays, reorders, cuts off, changes, joins, invents and drops messages,
// LNGTEST_MESSAGES in all, also while the daemon is killed and starts again. Each valid command acts once;
// no other acts, and none after its time.
func TestHostileDelivery(t *testing.T) {
	h := newHostile(t)
	h.hold("late", true, nil, "ann", func(c *api.Command) { c.NotAfter = c.Issued.Add(3 * time.Second) })
	h.hold("early", true, nil, "ann", func(c *api.Command) {
		c.Issued, c.NotAfter = c.Issued.Add(time.Hour), c.Issued.Add(time.Hour+time.Minute)
	})
	h.hold("host", true, nil, "ann", func(c *api.Command) { c.Hosts = []string{"SHA256:" + strings.Repeat("A", 43)} })
	h.hold("verb", true, nil, "ann", func(c *api.Command) { c.Verb, c.Mode, c.Sessions, c.All = "halt", "halt", nil, true })
	h.hold("unknown", true, nil, "cyd", nil)
	h.hold("no-entry", true, nil, "eve", nil)
	h.hold("one-of-two", true, nil, "ben", nil)
	h.hold("unsigned", true, func(s *api.SignedCommand) { s.Signatures = nil }, "ann", nil)
	h.hold("dropped", false, nil, "ann", nil)
	time.Sleep(4 * time.Second) // the first has expired
	for range 8 {
		h.hold("good", true, nil, "ann", nil).counts = true
	}
	accepted := h.deliver(stage.FromEnv(t, "LNGTEST_MESSAGES", 2000))
	for _, c := range h.all {
		want := map[bool]int{true: 1}[c.counts]
		if accepted[c.id] != want {
			t.Errorf("%s: accepted %d times, want %d", c.name, accepted[c.id], want)
		}
		if delete(accepted, c.id); c.counts {
			h.Receipt(c.session)
		} else if s := h.Record(c.session); s.State != api.StateActive {
			t.Errorf("%s: the session is %s", c.name, s.State)
		}
	}
	if len(accepted) > 0 {
		t.Errorf("accepted: %v", accepted)
	}
	peak, now := h.memory()
	lines := strings.Count(h.log(), "\n")
	t.Logf("figure: link VmHWM %d KiB, VmRSS %d KiB, %d lines", peak, now, lines)
	if peak > 64<<10 || lines > 400 {
		t.Errorf("%d KiB, %d lines: %.2000s", peak, lines, h.log())
	}
	h.Until("receipts in the stream", func() bool { return len(h.receipts()) == 16 })
	seen := make(map[string]int)
	for _, r := range h.receipts() {
		seen[r.ID]++
	}
	for _, c := range h.all {
		if c.counts && seen["command-"+c.id] != 1 {
			t.Errorf("the stream has %v", seen)
		}
		if !c.counts {
			h.Must("end", c.session, "--yes", "--now")
		}
	}
}

func newHostile(t *testing.T) *hostile {
	h := &hostile{keys: make(map[string]string)}
	for _, name := range []string{"ann", "ben", "cyd", "eve"} {
		h.keys[name] = filepath.Join(t.TempDir(), name)
		stage.Key(t, h.keys[name])
	}
	w := newWorld(t, "operators: [{name: ann, verbs: end}, {name: ben, verbs: end, signatures: 2}]\n", func(w *world) {
		w.Operators(h.keys["ann"], h.keys["ben"], h.keys["eve"])
	})
	h.commanded = &commanded{w, h.keys["ann"]}
	h.connected()
	return h
}

// hold starts a session, and makes a command that ends it.
func (h *hostile) hold(name string, whole bool, change func(*api.SignedCommand), key string, edit func(*api.Command)) *held {
	h.T.Helper()
	c := &held{name: name, whole: whole, session: h.run("lngtest-"+name+"-"+string(rune('a'+len(h.all))), "--grace", "0s")}
	require.NoError(h.T, json.Unmarshal(h.sign(c.session), &c.signed))
	cmd, err := api.ParseCommand(c.signed.Command)
	require.NoError(h.T, err)
	c.id = cmd.ID
	if edit != nil || key != "ann" {
		if edit != nil {
			edit(cmd)
		}
		c.signed.Command = cmd.Text()
		sign := exec.Command("ssh-keygen", "-q", "-Y", "sign", "-n", "lineage-command@1", "-f", h.keys[key])
		sign.Stdin = strings.NewReader(c.signed.Command)
		signature, err := sign.Output()
		require.NoError(h.T, err)
		c.signed.Signatures = []string{string(signature)}
	}
	if change != nil {
		change(&c.signed)
	}
	h.all = append(h.all, c)
	return c
}

// deliver sends n messages, and in the end each valid command once more. It counts how often each was accepted.
func (h *hostile) deliver(n int) map[string]int {
	h.T.Helper()
	inbox := h.ann.NewInbox()
	answers, err := h.ann.SubscribeSync(inbox + ".*")
	require.NoError(h.T, err)
	accepted, refused, waiting, sent := make(map[string]int), 0, 0, 0
	var last []byte
	await := func(most int) {
		for waiting > most {
			m, err := answers.NextMsg(stage.Patience)
			require.NoError(h.T, err)
			last = plain(h.T, m)
			waiting--
			if m.Header.Get(service.StatusHeader) != "202" {
				refused++
				continue
			}
			var d api.CommandReply
			require.NoError(h.T, json.Unmarshal(last, &d))
			accepted[receipt(h.T, &d).ID]++
		}
	}
	send := func(m []byte) {
		require.NoError(h.T, h.ann.PublishRequest(service.CommandSubject("web1"), fmt.Sprint(inbox, ".", sent), m))
		waiting, sent = waiting+1, sent+1
	}
	began := time.Now()
	for i := range n {
		if i == n/2 {
			h.serves.Process.Kill()
			h.serves.Wait()
			h.daemon()
		}
		send(h.message(last))
		await(64) // the link drops what comes too fast
	}
	for _, c := range h.all {
		if c.counts {
			send(encode(h.T, &c.signed))
		}
	}
	await(0)
	h.T.Logf("figure: %d messages, %d refused, %d commands accepted, %.0f s", sent, refused, len(accepted), time.Since(began).Seconds())
	return accepted
}

func encode(t *testing.T, s *api.SignedCommand) []byte {
	text, err := json.Marshal(s)
	require.NoError(t, err)
	return text
}

// message is what the bus delivers next.
func (h *hostile) message(last []byte) []byte {
	c, other := h.all[rand.N(len(h.all))], h.all[rand.N(len(h.all))]
	s := c.signed
	switch rand.N(8) {
	case 0: // again, late, in another order
		if c.whole {
			return encode(h.T, &s)
		}
	case 1: // the signature of another
		if s.Signatures = other.signed.Signatures; c != other {
			return encode(h.T, &s)
		}
	case 2: // to another session
		if s.Command = strings.Replace(s.Command, c.session, other.session, 1); c != other {
			return encode(h.T, &s)
		}
	case 3: // a signature twice, and perhaps another's
		s.Signatures = slices.Repeat(s.Signatures, 2)
		if rand.N(2) == 0 {
			s.Signatures = append(s.Signatures, other.signed.Signatures...)
		}
		if c.whole {
			return encode(h.T, &s)
		}
	case 4: // a receipt as a command
		return last
	case 5:
		if rand.N(50) == 0 {
			return bytes.Repeat([]byte("["), 1+rand.N(9<<10)) // of larger ones the link drops some
		}
		m := make([]byte, rand.N(300))
		for i := range m {
			m[i] = byte(rand.N(256))
		}
		return m
	case 6:
		m := bytes.Clone(encode(h.T, &s))
		m[rand.N(len(m))] ^= byte(1 << rand.N(8))
		var now api.SignedCommand
		if json.Unmarshal(m, &now) != nil || now.Command != s.Command { // else it may be the same command
			return m
		}
	}
	m := encode(h.T, &s)
	return m[:rand.N(len(m))]
}
