package policy

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/enforcer/redact"
	"github.com/lineage-ebpf/lineage/internal/require"
)

var update = flag.Bool("update", false, "write the golden files and the schema again")

// golden compares got with a file.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run go test -update", err)
	}
	if string(got) != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

// TestBad: every bad file has a line for each mistake that says what and where, and gives
// no policy.
func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var all strings.Builder
	for _, file := range files {
		p, err := Load(file)
		bad, ok := errors.AsType[*Error](err)
		if !ok || p != nil {
			t.Errorf("%s: %v, %v; want an *Error and no policy", file, p, err)
			continue
		}
		data, _ := os.ReadFile(file)
		lines := strings.Split(string(data), "\n")
		if bad.Line < 1 || bad.Line > len(lines) || bad.Column < 1 || bad.Column > len(lines[bad.Line-1])+1 {
			t.Errorf("%s: line %d, column %d are not in the file", file, bad.Line, bad.Column)
		}
		for _, e := range bad.All() {
			fmt.Fprintln(&all, filepath.Base(e.File)+strings.TrimPrefix(e.Error(), e.File))
		}
	}
	golden(t, "testdata/bad.golden", []byte(all.String()))
}

func TestNotAFile(t *testing.T) {
	if _, err := Load(t.TempDir() + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("a directory was read")
	}
	if _, err := Parse("big", make([]byte, maxFile+1)); err == nil {
		t.Error("a file of any size was read")
	}
	if _, err := Load("/dev/zero"); err == nil || !strings.Contains(err.Error(), "larger than 1MiB") {
		t.Errorf("/dev/zero: %v", err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	if _, err := Load(fifo); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("a FIFO without a writer: %v", err)
	}
	// A shell's <(command) is a pipe.
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	time.AfterFunc(50*time.Millisecond, func() {
		_, _ = w.WriteString("version: 1\nmode: enforce\n")
		w.Close()
	})
	if p, err := Load(fmt.Sprintf("/dev/fd/%d", r.Fd())); err != nil || p.Mode != "enforce" {
		t.Errorf("a pipe: %v, %v", p, err)
	}
}

// A match that names many creators costs no more than the line that refuses it.
func TestParents(t *testing.T) {
	nested := func(n int) string {
		return "version: 1\nagents:\n  - {name: a, enabled: true, match: {comm: a" + strings.Repeat(", parent: {comm: a", n) + strings.Repeat("}", n) + "}}\n"
	}
	if p, err := Parse("p", []byte(nested(maxParents))); err != nil || p.Agents[0].Match.Parent == nil {
		t.Errorf("%d parents: %v", maxParents, err)
	}
	for _, n := range []int{maxParents + 1, 1000, 5000} {
		_, err := Parse("p", []byte(nested(n)))
		if bad, ok := errors.AsType[*Error](err); !ok || bad.What != "a match has more than 16 parents" || bad.Line != 3 || bad.Column < 100 {
			t.Errorf("%d parents: %v", n, err)
		}
	}
}

func parse(t *testing.T, text string) *Policy {
	t.Helper()
	p, err := Parse("f", []byte("version: 1\n"+text))
	require.NoError(t, err)
	return p
}

func TestGood(t *testing.T) {
	with := func(change func(p *Policy)) *Policy {
		p := Default()
		change(p)
		return p
	}
	for text, want := range map[string]*Policy{
		"":                       Default(),
		"defaults:\nprotect:\n":  Default(),
		"agents: []\nkeep:\n":    Default(),
		"self_protect: false\n":  Default(),
		"self_protect: true\n":   with(func(p *Policy) { p.SelfProtect = true }),
		"mode: enforce":          with(func(p *Policy) { p.Mode = "enforce" }),
		"mode: 'enforce'":        with(func(p *Policy) { p.Mode = "enforce" }),
		"signals: session":       with(func(p *Policy) { p.Signals = "session" }),
		"defaults: {grace: 0}":   with(func(p *Policy) { p.Defaults.Grace = 0 }),
		"defaults: {grace: 10m}": with(func(p *Policy) { p.Defaults.Grace = Duration(10 * time.Minute) }),
		"defaults: {idle: 1h30m, idle_cpu: 500ms}": with(func(p *Policy) {
			p.Defaults.Idle, p.Defaults.IdleCPU = Duration(90*time.Minute), Duration(time.Second/2)
		}),
		"defaults: {max_rss: 8GiB, max_processes: 400, max_lifetime: 4h}": with(func(p *Policy) {
			p.Defaults.MaxRSS, p.Defaults.MaxProcesses, p.Defaults.MaxLifetime = 8<<30, 400, Duration(4*time.Hour)
		}),
		"brokers: {end: strong, shared: []}": Default(),
		"brokers: {adopt: [unit, env], end: none}": with(func(p *Policy) {
			p.Brokers = Brokers{Adopt: []string{"unit", "env"}, End: "none"}
		}),
		"breaker: {ends_per_minute: 1}":        with(func(p *Policy) { p.Breaker.EndsPerMinute = 1 }),
		"wait: {killed: 100ms, ports: 0}":      with(func(p *Policy) { p.Wait = Wait{Killed: Duration(100 * time.Millisecond)} }),
		"daemon: {level: 2, ring_size: 64KiB}": with(func(p *Policy) { p.Daemon.Level, p.Daemon.RingSize = "2", 64<<10 }),
		"daemon: {log_level: debug}":           with(func(p *Policy) { p.Daemon.LogLevel = "debug" }),
		"daemon: {self_check: 0}":              with(func(p *Policy) { p.Daemon.SelfCheck = 0 }),
		"daemon: {self_check: 1m}":             with(func(p *Policy) { p.Daemon.SelfCheck = Duration(time.Minute) }),
		"daemon: {audit: {max_size: 1MiB}}":    with(func(p *Policy) { p.Daemon.Audit.MaxSize = 1 << 20 }),
	} {
		t.Run(text, func(t *testing.T) {
			got := parse(t, text)
			got.file, got.lines = want.file, want.lines
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestExampleHoldsTheDefaults(t *testing.T) {
	p, err := Load("../../packaging/policy.yaml")
	require.NoError(t, err)
	want, got := Default().Values(), p.Values()
	require.Equal(t, len(got), len(want))
	for i := range want {
		if !reflect.DeepEqual(got[i].Value, want[i].Value) || got[i].Key != want[i].Key {
			t.Errorf("the example says %v, the default is %v", got[i], want[i])
		}
	}
}

func TestOrigin(t *testing.T) {
	p := parse(t, "defaults:\n  grace: 1s\nredact:\n  - abc\nprotect:\n  - name: db\n    match: {exe: [/bin/a, /bin/b]}\n    reason: x\n")
	got := map[string]string{}
	for _, v := range p.Values() {
		got[v.Key] = fmt.Sprint(v.Value, " ", v.Origin)
	}
	for key, want := range map[string]string{
		"version":           "1 f:1",
		"mode":              "observe built-in",
		"defaults.grace":    "1s f:3",
		"defaults.idle_cpu": "1s built-in",
		"redact.0":          "abc f:5",
		"protect.db":        "map[match:map[exe:[/bin/a /bin/b]] name:db reason:x] f:7",
		"daemon.ring_size":  "8MiB built-in",
	} {
		if got[key] != want {
			t.Errorf("%s: %q, want %q", key, got[key], want)
		}
	}
	if !strings.HasSuffix(got["protect.sshd"], BuiltIn) {
		t.Errorf("protect.sshd: %q", got["protect.sshd"])
	}
}

// fileOf builds a file of the effective values.
func fileOf(p *Policy) []byte {
	root := map[string]any{}
	under := func(keys []string) (m map[string]any, last string) {
		m = root
		for _, k := range keys[:len(keys)-1] {
			if m[k] == nil {
				m[k] = map[string]any{}
			}
			m = m[k].(map[string]any)
		}
		return m, keys[len(keys)-1]
	}
	for _, v := range p.Values() {
		i := slices.IndexFunc(listKeys, func(key string) bool { return strings.HasPrefix(v.Key, key+".") })
		if i < 0 {
			m, k := under(strings.Split(v.Key, "."))
			m[k] = v.Value
			continue
		}
		if v.Origin == BuiltIn {
			continue // the file adds to it, but never replaces it
		}
		m, k := under(strings.Split(listKeys[i], "."))
		list, _ := m[k].([]any)
		m[k] = append(list, v.Value)
	}
	b, err := json.Marshal(root) // JSON is YAML
	if err != nil {
		panic(err)
	}
	return b
}

// listKeys are the keys whose values are named one by one.
var listKeys = []string{"redact", "protect", "agents", "containers", "keep", "brokers.shared"}

// same fails unless two policies have the same effective values.
func same(t *testing.T, a, b *Policy) {
	t.Helper()
	x, y := a.Values(), b.Values()
	require.Equal(t, len(x), len(y))
	for i := range x {
		if x[i].Key != y[i].Key || !reflect.DeepEqual(x[i].Value, y[i].Value) {
			t.Fatalf("%v and %v", x[i], y[i])
		}
	}
}

func TestSuggest(t *testing.T) {
	known := []string{"grace", "max_rss", "max_lifetime"}
	for word, want := range map[string]string{
		"grase": `did you mean "grace"?`, "max_": `did you mean "max_rss"?`, "maxrss": `did you mean "max_rss"?`,
		"zzz": "use grace, max_rss or max_lifetime", "": "use grace, max_rss or max_lifetime",
		strings.Repeat("x", 100): "use grace, max_rss or max_lifetime",
	} {
		if got := suggest(word, known); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

func TestRestartNeeded(t *testing.T) {
	a, b := Default(), parse(t, "mode: enforce\ndaemon: {level: 2, audit: {keep: 3}, history: {max_age: 24h, max_size: 16MiB}, log_level: info}")
	if got := b.RestartNeeded(a); !slices.Equal(got, []string{"daemon.audit.keep", "daemon.history.max_age", "daemon.history.max_size", "daemon.level"}) {
		t.Error(got)
	}
	if got := a.RestartNeeded(Default()); got != nil {
		t.Error(got)
	}
}

func TestWords(t *testing.T) {
	for text, d := range map[string]Duration{
		"0": 0, "500ms": Duration(time.Second / 2), "10m": Duration(10 * time.Minute), "1h30m": Duration(90 * time.Minute),
		"2h": Duration(2 * time.Hour), "1h0m1s": Duration(time.Hour + time.Second), "720h": Duration(720 * time.Hour),
	} {
		if d.String() != text {
			t.Errorf("%s is written %s", text, d)
		}
	}
	for text, s := range map[string]Size{"0": 0, "1B": 1, "1KiB": 1024, "1536MiB": 1536 << 20, "8GiB": 8 << 30, "1025B": 1025} {
		if s.String() != text {
			t.Errorf("%s is written %v", text, s)
		}
	}
}

// FuzzParse: no text makes it panic; if a text is accepted, its effective values are
// accepted again; if it is refused, the error is at a place in the file.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "../../packaging/policy.yaml"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(f, err)
			f.Add(data)
		}
	}
	for _, text := range []string{
		"",
		"mode: enforce\ndefaults: {grace: 90s, max_rss: 1536MiB, idle: 2h}\nredact: ['--api-key[= ]\\S+', \"a'b\"]\n",
		"protect:\n  - {name: a, match: {comm: [x, y], argv: '^-v$', uid: [ci, 1001], cgroup: /a/**, parent: {exe: /bin/*}}, reason: 'a: b'}\n",
		"brokers:\n  shared:\n    - {name: a.b, match: {comm: A, exe: /bin/a}}\n    - {name: c, match: {exe: /bin/c}, end: never}\n",
	} {
		f.Add([]byte("version: 1\n" + text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("f", data)
		if err != nil {
			bad, ok := errors.AsType[*Error](err)
			if !ok || p != nil || bad.Line < 1 || bad.Column < 1 || bad.Line > 1+strings.Count(string(data), "\n") {
				t.Fatalf("%v, %#v", p, err)
			}
			return
		}
		q, err := Parse("again", fileOf(p))
		if err != nil {
			t.Fatalf("%v: %s", err, fileOf(p))
		}
		same(t, p, q)
	})
}

func TestKeysAreUnique(t *testing.T) {
	var walk func(reflect.Type)
	seen := map[reflect.Type]bool{}
	walk = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] {
			return
		}
		seen[typ] = true
		keys := map[string]bool{}
		for _, f := range fields(typ) {
			if keys[f.key] || f.Tag.Get("doc") == "" {
				t.Errorf("%v.%s: a key twice, or without doc: %v", typ, f.key, slices.Sorted(maps.Keys(keys)))
			}
			keys[f.key] = true
			for _, limit := range []string{"min", "max", "least"} {
				bound(reflect.New(f.Type).Elem(), f.Tag, limit)
			}
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[Policy]())
}

// TestRedact: the policy's expressions hide what redact does not know.
func TestRedact(t *testing.T) {
	p := parse(t, "redact: ['--pin[= ]\\S+']")
	if got := p.Redact([]string{"x", "--pin=1", "--token=2"}); !slices.Equal(got, []string{"x", redact.Hidden, "--token=" + redact.Hidden}) {
		t.Errorf("%q", got)
	}
}

// TestGuards: which sessions are guarded, by the top of the file and by an agent rule, and whether
// their signals are refused.
func TestGuards(t *testing.T) {
	const rule = "agents:\n  - {name: a, enabled: true, match: {comm: a}%s}\n"
	for _, tt := range []struct {
		text                     string
		all, some, rule, refuses bool
	}{
		{fmt.Sprintf(rule, ""), false, false, false, false},
		{"signals: session\n" + fmt.Sprintf(rule, ""), true, true, true, false},
		{"mode: enforce\nsignals: session\n" + fmt.Sprintf(rule, ", signals: any"), true, false, false, true},
		{"mode: enforce\n" + fmt.Sprintf(rule, ", signals: session"), false, true, true, true},
		{"mode: enforce\n" + fmt.Sprintf(rule, ""), false, false, false, false},
	} {
		p := parse(t, tt.text)
		all, some := p.Guards()
		if of := p.Terms(&p.Agents[0]).Guarded; all != tt.all || some != tt.some || of != tt.rule || p.Refuses() != tt.refuses {
			t.Errorf("%s: %v, %v, %v, %v", tt.text, all, some, of, p.Refuses())
		}
	}
}
