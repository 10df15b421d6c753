package ocsf

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
	"github.com/lineage-ebpf/lineage/internal/ocsf"
	"github.com/lineage-ebpf/lineage/internal/require"
)

const secret = "hunter2hunter2"

// hostile is text that a process chose: any bytes that can come through the API's JSON.
func hostile(t *rapid.T, what string) string {
	text := rapid.OneOf(
		rapid.SampledFrom([]string{"", "sh", "\n", "\x1b[2J", "\u202egnp.exe", "a\x00b", `"},"x":{"`, "</script>", "\xff\xfe", "\u2028", strings.Repeat("€", 2000)}),
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	).Draw(t, what)
	return strings.ToValidUTF8(text, "\ufffd")
}

// TestHostile: any story gives valid events of one line each, with unique ids, a message that is
// safe to print, and no secret.
func TestHostile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		session := sampleSession()
		session.Name, session.Rule = hostile(t, "name"), hostile(t, "rule")
		session.Root.Comm, session.Root.Exe = hostile(t, "comm"), hostile(t, "exe")
		if rapid.Bool().Draw(t, "unknown session") {
			*session = api.Session{ID: session.ID}
		}
		s := storyOf(session)
		refs := []api.Ref{agentRef}
		now := 110 * second
		var all []*follow.Record
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now += uint64(rapid.IntRange(1, 1e9).Draw(t, "later"))
			p := &api.Process{Ref: rapid.SampledFrom(refs).Draw(t, "of"), Session: "k3x9q2", Comm: hostile(t, "comm")}
			e := api.Event{Process: p}
			kind := rapid.SampledFrom([]string{"fork", "fork", "exec", "exec", "exit", "reparent", "lost"}).Draw(t, "kind")
			switch kind {
			case "fork":
				creator := p.Ref
				p.Ref = api.Ref{PID: 5000 + len(refs), StartNS: api.U64(now)}
				refs = append(refs, p.Ref)
				p.Started, p.UID = at(now), new(rapid.IntRange(0, 70000).Draw(t, "uid"))
				if rapid.Bool().Draw(t, "creator is known") {
					p.Creator, p.Parent = &creator, &initRef
				}
			case "exec":
				p.Exe = hostile(t, "exe")
				p.Argv = []string{hostile(t, "argv"), "--token=" + secret, hostile(t, "argv"), "--password", secret}
			case "exit":
				p.Exited, p.Signal = at(now), hostile(t, "signal")
			case "reparent":
				e.To = &initRef
			case "lost":
				e = api.Event{Where: hostile(t, "where"), Count: rapid.Uint64Range(0, 1<<62).Draw(t, "count")}
			}
			all = append(all, s.event(now, api.EventType(kind), e))
		}
		end := s.event(now+1, "session", api.Event{Session: "k3x9q2", State: api.StateEnded, Reason: hostile(t, "reason")})
		end.Report = receiptOf(t, refs)
		check(t, append(all, end))
	})
}

func receiptOf(t *rapid.T, refs []api.Ref) *api.Report {
	d := &api.Report{
		EndReason: rapid.SampledFrom([]string{"", "end", "max_rss", "idle", "released", "untracked", "root_exit"}).Draw(t, "end reason"),
		Verdict:   rapid.SampledFrom([]api.Verdict{"", "clean", "left", "unknown", "new in v9"}).Draw(t, "verdict"), VerdictWhy: hostile(t, "why"),
		WouldEnd: []string{"max_rss", hostile(t, "would end")}, EndedBy: &api.Caller{UID: 7, PID: 8, Comm: hostile(t, "comm")},
		Delegated: []api.Delegated{{Broker: hostile(t, "broker"), State: "unattributed"},
			{State: "unattributed", Asked: &api.Process{Ref: refs[0], Comm: hostile(t, "comm")}}},
	}
	for _, ref := range refs {
		d.Processes = append(
			d.Processes,
			api.Outcome{
				Ref:       ref,
				Comm:      hostile(t, "comm"),
				Why:       hostile(t, "why"),
				Container: &api.Container{ID: hostile(t, "container"), Name: hostile(t, "container")},
				Leftover:  true,
				Outcome:   rapid.SampledFrom([]api.OutcomeKind{"self", "term", "kill", "kept", "left", "new in v9"}).Draw(t, "outcome"),
			},
		)
	}
	return d
}

func check(t *rapid.T, all []*follow.Record) {
	e, again := newEncoder(), newEncoder()
	ids := make(map[string]string)
	for _, r := range all {
		logs, repeated := encoded(e, r), encoded(again, r)
		require.Equal(t, len(logs), len(repeated))
		for i, l := range logs {
			var v event
			if err := ocsf.Validate(l.JSON); err != nil {
				t.Errorf("%v: %s", err, l.JSON)
			}
			require.NoError(t, json.Unmarshal(l.JSON, &v))
			switch {
			case bytes.ContainsAny(l.JSON, "\n\x00\x1b"):
				t.Errorf("an event of several lines: %q", l.JSON)
			case bytes.Contains(l.JSON, []byte(secret)):
				t.Errorf("a secret: %s", l.JSON)
			case strings.ContainsFunc(l.Line, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(l.Line):
				t.Errorf("a message that is not safe to print: %q", l.Line)
			case v.Message != l.Line || ids[v.Metadata.UID] != "":
				t.Errorf("%q: message %q, also the uid of %q", l.Line, v.Message, ids[v.Metadata.UID])
			case !bytes.Equal(l.JSON, repeated[i].JSON):
				t.Errorf("%s\nand the next time\n%s", l.JSON, repeated[i].JSON)
			}
			ids[v.Metadata.UID] = l.Line
		}
	}
}

// TestLineBound: no line is longer than docs/SIEM.md tells receivers to accept, whatever a chain of
// processes is called and whatever it leaves behind.
func TestLineBound(t *testing.T) {
	word := func(n int) string { return strings.Repeat("\x01", n) } // six bytes each in JSON
	s := newStory()
	var left []api.Orphan
	var outcomes []api.Outcome
	longest := func(r *follow.Record) {
		for _, v := range encoded(newEncoder(), r) {
			if len(v.JSON) > 256<<10 {
				t.Errorf("%s: a line of %d bytes", v.Line[:40], len(v.JSON))
			}
		}
	}
	creator := agentRef
	for n := range 2 * maxAncestry {
		ref := api.Ref{PID: 5000 + n, StartNS: api.U64(110*second) + api.U64(n)}
		longest(
			s.event(
				110*second+uint64(2*n),
				"fork",
				api.Event{Process: &api.Process{Ref: ref, Session: "k3x9q2", Comm: word(15), UID: new(1000),
					Creator: &creator, Parent: &creator, Started: at(110 * second)}},
			),
		)
		longest(
			s.event(
				110*second+uint64(2*n)+1,
				"exec",
				api.Event{Process: &api.Process{Ref: ref, Session: "k3x9q2", Comm: word(15), UID: new(1000), Exe: word(255), Argv: []string{word(900), word(3100)}}},
			),
		)
		left = append(left, api.Orphan{Why: api.WhyLeftover, Process: api.Process{Ref: ref, Comm: word(15), Argv: []string{word(4000)}}})
		outcomes = append(outcomes, api.Outcome{Ref: ref, Comm: word(15), Argv: []string{word(4000)}, Leftover: true, Outcome: api.OutcomeLeft})
		creator = ref
	}
	for _, known := range []*follow.Known{nil, s.k} {
		longest(&follow.Record{ID: "left", Kind: follow.Orphans, Host: sampleHost, Time: *at(1),
			Session: &follow.SessionInfo{Session: *sampleSession()}, Orphans: left, Known: known})
	}
	end := s.event(200*second, "session", api.Event{Session: "k3x9q2", State: api.StateEnded})
	end.Report = &api.Report{Verdict: api.VerdictLeft, Processes: outcomes}
	longest(end)
}
