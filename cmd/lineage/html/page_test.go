package html

import (
	"fmt"
	"html"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// hostile are texts by which a member could become part of a page.
var hostile = []string{
	`<script>document.title="canary"</script>`,
	`"><img src=x onerror="document.title='canary'">`,
	`'><svg/onload=document.title='canary'>`,
	`</title></style></textarea><script>document.title='canary'//`,
	`--><script>document.title='canary'</script><!--`,
	`]]><script>document.title='canary'</script>`,
	"</code></summary></details></ul><h1 id=receipt>Receipt</h1>", "javascript:document.title='canary'",
	"{{.Title}}{{template \"row\"}}{{html `x`}}", "\u202egnp.exe\u202c\u2066\u2069\u200f",
	"\x1b]0;canary\a\x1b[2J\r\n\x00\xff\xfe",
	"<meta http-equiv=refresh content=0;url=http://127.0.0.1:1/>",
	"<base href=http://127.0.0.1:1/><link rel=stylesheet href=x.css>",
	"<iframe srcdoc='<script>parent.document.title=1</script>'></iframe>",
	"<form action=http://127.0.0.1:1/><input autofocus onfocus=document.title=1>",
	"<style>*{background:url(http://127.0.0.1:1/)}</style>",
	"&lt;script&gt;&#60;script&#62;&quot;&amp;", "+ADw-script+AD4-document.title=1+ADw-/script+AD4-",
	"<a href=\"data:text/html,<script>1</script>\" ping=http://127.0.0.1:1/>x</a><noscript><p title=\"</noscript><img src=x onerror=document.title=1>\">",
	strings.Repeat(`<script>document.title="canary"</script>`, 15<<10/40),
}

var tags = regexp.MustCompile(`<[^>]*>`)

func skeleton(page string) string { return strings.Join(tags.FindAllString(page, -1), "\n") }

// TestHostile: whatever members call themselves, their calls and their files, the markup is that of
// a page of harmless names.
func TestHostile(t *testing.T) {
	for _, text := range hostile {
		s, r := agent(text)
		got := written(t, s, r)
		s, r = agent(strings.Repeat("x", len(display.Text(text))))
		if got, want := skeleton(got), skeleton(written(t, s, r)); got != want {
			t.Errorf("%.60q: the markup is\n%.2000s\nwant\n%.2000s", text, got, want)
		}
		if strings.ContainsAny(got, "\u202e\u2066\x1b\x00") || !utf8.ValidString(got) {
			t.Errorf("%.60q: raw in the page", text)
		}
		if strings.Contains(got, "hunter2") || !strings.Contains(got, "[redacted]") {
			t.Errorf("%.60q: a secret is in the page", text)
		}
		if len(text) < maxName && !strings.Contains(html.UnescapeString(got), "Bash"+display.Text(text)) {
			t.Errorf("%.60q: is not in the page as text", text)
		}
	}
}

// FuzzPage: whatever members choose, the page has the elements that it should have.
func FuzzPage(f *testing.F) {
	for _, text := range hostile {
		f.Add(text, text, text)
	}
	f.Fuzz(func(t *testing.T, comm, arg, reason string) {
		s := tell(comm)
		s.fork(0, 100, comm)
		p := &api.Process{Ref: s.ref(100), Comm: comm, Exe: arg, Argv: []string{arg, comm}, Container: &api.Container{Name: reason}, Session: reason,
			Calls: []api.Call{{ID: arg, Tool: reason}}, Trace: &api.Trace{TraceID: arg, SpanID: reason}, Evidence: &api.Evidence{Kind: reason, Source: arg}}
		s.event(api.Event{Type: "exec", Process: p})
		s.event(api.Event{Type: "trace", Process: p})
		s.event(api.Event{Type: "session", Session: arg, State: api.SessionState(reason), Reason: reason})
		s.event(api.Event{Type: "listen", Process: p, Port: &api.Port{Proto: reason, Addr: arg}})
		s.event(api.Event{Type: "mark", Process: p, Call: &p.Calls[0]})
		s.page.Event(&api.Event{Type: "lost", Where: reason})
		p.Signal = reason
		s.event(api.Event{Type: "exit", Process: p})
		page := written(t, s, &api.Report{Verdict: api.Verdict(reason), VerdictWhy: reason, EndReason: reason, EndedBy: &api.Caller{Comm: comm}, Also: []string{arg},
			Processes: []api.Outcome{{Ref: p.Ref, Comm: comm, Argv: p.Argv, Outcome: api.OutcomeKind(reason), Why: arg}}})
		for _, tag := range []string{"<script>", "<style>", "<h1>", "</html>"} {
			require.Equal(t, strings.Count(page, tag), 1)
		}
		for _, tag := range tags.FindAllString(page[len(head):strings.LastIndex(page, "<script>")], -1) {
			if !known.MatchString(tag) {
				t.Errorf("the page has %q", tag)
			}
		}
	})
}

// known are the elements of the page; words in attributes are ours.
var known = regexp.MustCompile(
	`^</?(a|b|body|button|code|dd|details|div|dl|dt|em|footer|g|head|h1|h2|h3|header|i|input|li|line|main|nav|output|p|path|pre|rect|section|span|strong|summary|svg|table|tbody|td|text|th|thead|title|tr|ul)( [a-zA-Z0-9-]+(="[a-zA-Z0-9 .,%#/-]*")?)*/?>$`,
)

// TestSecret: no command of the page shows a secret, and without a redactor there are no arguments.
func TestSecret(t *testing.T) {
	for _, redact := range []func([]string) []string{hideSecret, nil} {
		s, r := agent("")
		s.page.members.redact = redact
		s.fork(100, 500, "late")
		s.exec(500, "late", "--password=hunter2")
		other := &api.Process{Ref: ref(600), Comm: "other", Argv: []string{"other", "--password=hunter2"}}
		r.Delegated, r.OutputHeldBy = []api.Delegated{{Broker: "tmux", Asked: other}}, []api.Process{*other}
		r.Zombies = []api.Zombie{{Ref: ref(601), Comm: "undead", Reaper: other}}
		if page := written(t, s, r); strings.Contains(page, "hunter2") || strings.Contains(page, "password") != (redact != nil) ||
			strings.Contains(page, "Arguments are left out") != (redact == nil) || !strings.Contains(page, "other") {
			t.Errorf("with a redactor: %v: a secret, or arguments, are in the page", redact != nil)
		}
	}
}

// TestMore: what members can make many is bounded, and the page says what is missing.
func TestMore(t *testing.T) {
	s := tell("many")
	s.fork(0, 100, "sh")
	for n := range maxCalls + 3 {
		s.call(100, fmt.Sprint(n), "Bash", false)
	}
	for n := range maxPorts + 4 {
		s.listen("listen", 100, n)
	}
	s.event(api.Event{Type: api.EventLost, Count: 7, Where: "the ring"})
	for range maxSteps + 4 {
		s.state("active", "")
	}
	r := &api.Report{Zombies: make([]api.Zombie, 9), PortsFreed: make([]api.Port, maxNotes-1), Delegated: make([]api.Delegated, 8)}
	require.Contains(t, written(t, s, r), "7 events missing: the ring", "3 more tool calls are not shown.",
		"4 more sockets are not shown.", "5 more changes of state are not shown.",
		"8 more lines of the receipt are not shown.")
}

// TestTree: a leftover is below its dead creator, equal processes are one line, and what a process
// ran before is said.
func TestTree(t *testing.T) {
	s, r := agent("")
	page := written(t, s, r)
	require.Contains(t, page,
		`<b>101</b><code>/bin/bash -lc &#39;npm run dev &amp;&#39;</code>`, `<em class="leftover">left over</em>`,
		`<b>×30</b><code>test -e out</code>`, `<i class="kill">SIGKILL</i>`, `<em class="call">Bash toolu_01</em>`, `its creator died; its parent was then 99`,
		`codex exec &#39;--token=[redacted]&#39;`, "All 46 processes, below the process that created each.",
		"<td>tcp 127.0.0.1:5173</td>", "no request", "level 4, policy mode observe")
	if strings.Index(page, "<b>101</b>") > strings.Index(page, "<b>102</b>") || strings.Contains(page, "ran before") {
		t.Error("the leftover is not below its creator, or the root has run lineage")
	}
	s.fork(100, 600, "sh")
	s.event(api.Event{Type: "exec", SinceNS: 1, Process: &api.Process{Ref: s.ref(600), Argv: []string{"make"}}, Was: &api.Process{Argv: []string{"sh", "hunter2"}}})
	require.Contains(t, written(t, s, r), "ran before: sh &#39;[redacted]&#39;")
}

// TestContinues: a session that "run --on-exit report" leaves alive was not ended in vain, and one without a verdict not at all.
func TestContinues(t *testing.T) {
	s := tell("stays")
	s.fork(0, 100, "sh")
	s.fork(100, 101, "server")
	s.exit(100, 0)
	page := written(t, s, &api.Report{State: "active", Verdict: "left", Left: 1,
		Processes: []api.Outcome{{Ref: s.ref(101), Outcome: "left", Why: "--on-exit report", Leftover: true}}})
	require.Contains(t, page, "nothing was ended", "the session continues with 1 process", `<i class="left">still alive</i>`, "still alive: --on-exit report")
	require.Contains(t, written(t, s, &api.Report{State: "active"}), "no verdict", "the session has not ended")
}

// TestUnseen: what was not seen is not said: the end of a call, of a port, of a process, and what the kernel counted. What is
// reported twice was so at first.
func TestUnseen(t *testing.T) {
	s := tell("unseen")
	s.fork(0, 100, "sh")
	for pid := 101; pid < 107; pid++ {
		s.fork(100, pid, "job")
	}
	s.fork(106, 107, "child")
	s.call(101, "id", "Bash", false)
	s.call(102, "id", "Bash", false) // of another agent
	s.wait(5).call(101, "id", "", true)
	for _, kind := range []api.EventType{"listen", "unlisten", "listen"} {
		s.listen(kind, 101, 80)
	}
	s.killed(101, "SIGKILL")
	s.wait(90).exit(101, 0)
	s.call(101, "id", "", true)
	r := &api.Report{Verdict: "clean", Started: 10, Processes: []api.Outcome{{Ref: ref(1), Comm: "x", Outcome: "kill"},
		{Ref: ref(2), Comm: "x", Outcome: "kill", Leftover: true}}}
	page := written(t, s, r)
	require.Contains(t, page,
		`<td class="n">101</td><td class="n">5ms</td>`,
		`<td class="n">102</td><td class="n">end not reported</td>`,
		`<td class="n">0.005s</td><td class="n">0.005s</td>`,
		`<td class="n">0.005s</td><td class="n">end not seen</td>`,
		`<i class="bad">SIGKILL</i>`,
		`<i class="open">its end was not seen</i>`,
		"<b>×4</b>", "<b>107</b>",
		`<td class="n">1</td>`,
		"<dt>Confirmed empty</dt><dd>no</dd>", "Not shown: 2.",
	)
}

// TestLeftover: without a receipt a leftover is what outlived the root, if nothing else had begun the end of the session;
// with one it is what the receipt says.
func TestLeftover(t *testing.T) {
	for begun, want := range map[string]int{"root_exit": 5, "end": 0} {
		s := tell("left")
		s.fork(0, 100, "sh")
		s.page.session.Root.Ref = s.ref(100)
		for pid := 101; pid < 106; pid++ {
			s.fork(100, pid, "job")
		}
		s.wait(5).event(api.Event{Type: "session", Session: "nested", State: "ending", Reason: "end"})
		s.state("ending", begun)
		s.exit(100, 0)
		s.wait(5).killed(101, "SIGKILL")
		require.Equal(t, strings.Count(written(t, s, nil), "left over</em>"), want)
		r := &api.Report{Processes: []api.Outcome{{Ref: s.ref(102), Outcome: "kill"}}}
		require.Equal(t, strings.Count(written(t, s, r), "left over</em>"), max(want-1, 0))
	}
}

// TestDeep: a chain of a thousand processes does not nest deeper than browsers can, and has all.
func TestDeep(t *testing.T) {
	s := tell("deep")
	s.fork(0, 100, "chain")
	for pid := 101; pid < 1100; pid++ {
		s.wait(1).fork(pid-1, pid, "chain")
		s.exit(pid-1, 0)
	}
	page := written(t, s, nil)
	depth, most := 0, 0
	for _, tag := range tags.FindAllString(page, -1) {
		switch {
		case strings.HasPrefix(tag, "<details"):
			depth++
		case tag == "</details>":
			depth--
		}
		most = max(most, depth)
	}
	if most > maxDepth+3 {
		t.Errorf("%d deep", most)
	}
	for pid := 100; pid < 1100; pid++ {
		require.Contains(t, page, fmt.Sprintf("<b>%d</b>", pid))
	}
}

// TestRoom: of more processes than there is room for, those that live and those that died last are
// shown, and the page says how many are not.
func TestRoom(t *testing.T) {
	s := tell("storm")
	s.fork(0, 100, "sh")
	s.fork(100, 101, "server")
	born := func(n int) {
		for i := range n {
			pid := 200 + i%50000
			s.at += 1000
			s.fork(100, pid, "true")
			x := api.Process{Ref: api.Ref{PID: pid, StartNS: api.U64(s.at)}, ExitCode: new(0)}
			s.event(api.Event{Type: "exit", Process: &x})
		}
	}
	born(maxMembers + 1000)
	require.Equal(t, len(s.page.members.all), maxMembers)
	page := written(t, s, nil)
	require.Contains(t, page,
		"<b>101</b><code>server</code>", "1002 processes below it not shown",
		fmt.Sprintf("%d of %d processes, below the process that created each. Not shown: 1002.", maxMembers, maxMembers+1002),
	)
}

// many is a session of a hundred thousand processes; text gives the arguments of each.
func many(text func(i int) []string) (*story, *api.Report) {
	s := tell("many")
	s.fork(0, 100, "sh")
	for i := range 100_000 {
		s.at += 10_000
		creator := 100
		if i%10 > 0 {
			creator = 1000 + i - i%10
		}
		p := api.Process{Ref: api.Ref{PID: 1000 + i, StartNS: api.U64(s.at)}, Creator: &api.Ref{PID: creator}, Comm: "sh", Session: "k3x9q2"}
		p.Creator.StartNS = api.U64(s.at - uint64(i%10)*10_000)
		if creator == 100 {
			*p.Creator = ref(100)
			p.Creator.StartNS = 1000 * second
		}
		s.event(api.Event{Type: "fork", Process: &p})
		p.Argv = text(i)
		s.event(api.Event{Type: "exec", Process: &p})
		p.ExitCode = new(0)
		s.event(api.Event{Type: "exit", Process: &p})
	}
	r := &api.Report{Verdict: "clean", Started: 100_001}
	for i := range 4096 {
		r.Processes = append(r.Processes, api.Outcome{Ref: api.Ref{PID: i + 1}, Argv: text(i), Outcome: "kill"})
	}
	return s, r
}

// TestManyProcesses: a page of 100,000 processes has at most 20 MB, and bounded memory, whatever they
// are called.
func TestManyProcesses(t *testing.T) {
	long := strings.Repeat(`"<&`, 5<<10)
	for name, text := range map[string]func(i int) []string{
		"equal": func(int) []string { return []string{"true"} },
		"distinct": func(i int) []string {
			return []string{"cc", "-O2", "-c", fmt.Sprintf("/srv/build/src/module%d/part%d.c", i/100, i)}
		},
		"hostile": func(i int) []string { return []string{fmt.Sprint(i), long} },
	} {
		t.Run(name, func(t *testing.T) {
			heap := func() uint64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			before := heap()
			s, r := many(text)
			after := heap()
			var size counting
			start := time.Now()
			require.NoError(t, s.page.Write(&size, r))
			took := time.Since(start)
			t.Logf("figure: %s: %d bytes, %d MiB of memory, written in %v", name, size, (int64(after)-int64(before))>>20, took.Round(time.Millisecond))
			if size > 20_000_000 || after > before+160<<20 {
				t.Errorf("%d bytes, %d MiB of memory", size, (after-before)>>20)
			}
			require.Equal(t, len(s.page.members.all), 100_001)
		})
	}
}

type counting int

func (c *counting) Write(b []byte) (int, error) { *c += counting(len(b)); return len(b), nil }

// TestEverything: each fact of a receipt is on the page. A new field of api.Report has to be there, too.
func TestEverything(t *testing.T) {
	s, _ := agent("")
	r, facts := everything(s)
	for field, v := range reflect.ValueOf(r).Elem().Fields() {
		if v.IsZero() {
			t.Errorf("the report has no %s", field.Name)
		}
	}
	page := dense(html.UnescapeString(tags.ReplaceAllString(written(t, s, r), "")))
	for _, fact := range facts {
		require.Contains(t, page, dense(fact))
	}
}
