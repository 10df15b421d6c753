package policy

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/page"
	"github.com/lineage-ebpf/lineage/internal/require"
)

const reference = "../../docs/POLICY.md"

// A sample is a value of a key that is accepted, and one that is refused.
type sample struct{ good, bad string }

// samples are by key; "[]" is an item of a list.
var samples = map[string]sample{
	"version":      {"1", "2"},
	"mode":         {"enforce", "enforced"},
	"signals":      {"session", "sessions"},
	"spare":        {"root", "foo"},
	"redact":       {`['--pin=(\S+)']`, `['(']`},
	"trace":        {"accept", "yes"},
	"self_protect": {"true", "on"},

	"defaults.grace":         {"10s", "10"},
	"defaults.max_lifetime":  {"8h", "100ms"},
	"defaults.max_processes": {"500", "-1"},
	"defaults.max_rss":       {"8GiB", "8GB"},
	"defaults.idle":          {"30m", "half an hour"},
	"defaults.idle_cpu":      {"2s", "2"},
	"defaults.limits":        {"{memory: 8GiB}", "{memory: 8GB}"},

	"agents[].name":          {"claude-code", "claude code"},
	"agents[].enabled":       {"true", "1"},
	"agents[].match":         {"{comm: claude}", "{exe: /usr/bin/claude}"},
	"agents[].grace":         {"10s", "1h"},
	"agents[].max_lifetime":  {"12h", "1 day"},
	"agents[].max_processes": {"200", "200k"},
	"agents[].max_rss":       {"16GiB", "16"},
	"agents[].idle":          {"30m", "10ms"},
	"agents[].signals":       {"any", "none"},
	"agents[].spare":         {"none", "agent"},
	"agents[].on_root_exit":  {"report", "keep"},
	"agents[].limits":        {"{cpus: 2.5}", "2 CPUs"},

	"containers[].name":            {"sandboxes", "all sandboxes"},
	"containers[].match.runtime":   {"docker", "podman"},
	"containers[].match.container": {"agent-*", "'agent-[0-9'"},
	"containers[].match.image":     {"'**/agent:*'", `""`},
	"containers[].match.pod":       {"'agent-*'", "{}"},
	"containers[].match.namespace": {"[build, test]", "[]"},
	"containers[].match.env":       {"LINEAGE_EXEC=end", "LINEAGE_EXEC"},
	"containers[].match.label":     {"com.docker.compose.project=web", `"=web"`},
	"containers[].session":         {"container", "pod"},
	"containers[].grace":           {"10s", "1h"},
	"containers[].idle":            {"30m", "10ms"},
	"containers[].on_exit":         {"report", "keep"},
	"containers[].client":          {"end", "keep"},
	"operators[].name":             {"ann@example.org", `"   "`},
	"operators[].verbs":            {"end", "kill"},
	"operators[].users":            {"[ci, 1001]", "'#1001'"},
	"operators[].sessions":         {"'agent-*'", "[]"},
	"operators[].signatures":       {"2", "0"},
	"containers[].brief":           {"10s", "2h"},

	"keep[].name":   {"build-cache", "/usr/bin/sccache"},
	"keep[].match":  {"{exe: /usr/bin/sccache}", "{comm: sccache}"},
	"keep[].reason": {"shared compiler cache", `""`},
	"keep[].until":  {"2027-06-30", "never"},

	"protect[].name":   {"database", "sshd"},
	"protect[].match":  {"{exe: /usr/lib/postgresql/*/bin/postgres}", "{}"},
	"protect[].reason": {"production data", "[]"},

	"brokers.adopt":          {"[env, unit, container]", "[fork]"},
	"brokers.end":            {"all", "weak"},
	"brokers.shared[].name":  {"gradle", "grädle"},
	"brokers.shared[].match": {"{exe: /usr/lib/jvm/*/bin/java, argv: GradleDaemon}", "{argv: GradleDaemon}"},
	"brokers.shared[].end":   {"never", "first"},

	"breaker.ends_per_minute": {"100", "0"},

	"wait.killed": {"30s", "1ms"},
	"wait.ports":  {"0", "1d"},

	"daemon.level":            {"2", "5"},
	"daemon.ring_size":        {"16MiB", "10MiB"},
	"daemon.self_check":       {"1h", "0.5s"},
	"daemon.deaths":           {"on", "root"},
	"daemon.log_level":        {"debug", "warning"},
	"daemon.history.max_age":  {"2160h", "90d"},
	"daemon.history.max_size": {"4GiB", "4G"},
	"daemon.audit.max_size":   {"256MiB", "1KiB"},
	"daemon.audit.keep":       {"30", "0"},

	"limits.memory":      {"8GiB", "8GB"},
	"limits.memory_high": {"6GiB", "1KiB"},
	"limits.cpus":        {"2.5", "0.001"},
	"limits.max_tasks":   {"500", "-1"},
	"limits.io_weight":   {"50", "10001"},
	"limits.leave":       {"return", "end"},

	"match.comm":   {"[claude, codex]", "a-name-of-16-byte"},
	"match.exe":    {"/opt/**/bin/worker", "worker"},
	"match.argv":   {"'^--serve$'", "'*'"},
	"match.uid":    {"[builder, 1001]", "'#1001'"},
	"match.cgroup": {"/user.slice/**", "user.slice"},
	"match.parent": {"{comm: worker-service}", "{}"},
}

// The sections of the page, with what the types do not say.
var sections = []struct{ key, text string }{
	{"", ""},
	{"defaults", "Flags of `lineage run` come before them."},
	{
		"agents",
		"A process is looked at when it executes a program, however it was started. A rule with `parent` also applies inside sessions. [Rules for known agents](AGENTS.md#rules).",
	},
	{
		"containers",
		"With `session: exec` the first process of the command, and what it starts, are the session, and what else runs in the container is in none. [How to](CONTAINERS.md#end-what-a-docker-exec-left), [limits](../KNOWN_ISSUES.md#delegated-work).",
	},
	{"operators", "[How to set it up](FLEET.md)."},
	{"keep", "When a member becomes a program that a rule matches, it moves to a [kept session](HOWTO.md#keep-a-development-server)."},
	{"protect", "What a session forked itself is not protected."},
	{"brokers", "The daemons are tmux, systemd, at, cron, docker and the like: [kinds of evidence](REFERENCE.md#evidence), [limits](../KNOWN_ISSUES.md#delegated-work)."},
	{"breaker", "`lineage policy resume` closes it."},
	{"wait", ""},
	{
		"daemon",
		"After a reload `lineage policy show` names the keys that need a restart. **How large is the history?** By default at most 1 GiB, and at most 30 days old: `history` bounds `/var/lib/lineage/history.db`, `audit` the log `/var/log/lineage/audit.jsonl`.",
	},
	{"limits", "Of `defaults` and of rules of `agents`. Flags of `lineage run` come before them. [How to](HOWTO.md#keep-one-agent-from-taking-the-host)."},
	{"match", "What rules of `agents`, `keep`, `protect` and `brokers.shared` select. All given keys must hold; a list means any of its items."},
}

// TestDocument: docs/POLICY.md has every key, made from the types that read the file. Its
// examples are accepted, and what it calls refused is refused with the words that it has.
func TestDocument(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# The policy file

<!-- Written by go test ./enforcer/policy -run TestDocument -update, from the types that read the file. -->

` + "`/etc/lineage/policy.yaml`" + ` says what lineage does automatically on this host. Without it the defaults below apply.
[An example](../packaging/policy.yaml) has every default, with comments; [policy.schema.json](policy.schema.json) is for editors.

| you want to | command |
| --- | --- |
| check a file | ` + "`lineage policy check FILE`" + ` |
| load it | ` + "`sudo systemctl reload lineage`" + `, or SIGHUP to the daemon |
| see each value in force, with the file and line that it came from | ` + "`lineage policy show`" + ` |
| see which rules match a process | ` + "`lineage policy explain PID`" + ` |

**A bad value** rejects the whole file, as does an unknown key or a duplicate name.
` + "`policy check`" + ` prints ` + "`FILE:LINE:COLUMN`" + ` and the reason, and exits with 1. At a reload the previous policy stays in force. A daemon does not
start with a bad file. It also refuses a file that a user other than root owns or may write, and a file below such a directory; in a sticky one, as /tmp, it takes root's.

A duration is ` + "`500ms`, `30s` or `1h30m`" + `, a size ` + "`512MiB` or `8GiB`" + `. A pattern is an RE2 expression: write it in single quotes. In a path,
` + "`*`" + ` stops at a slash, and ` + "`**`" + ` does not. A list has at most 1,000 items, the file 1 MiB.
`)
	seen := map[string]bool{}
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n", cmp.Or(s.key, "The top of the file"))
		if text := strings.TrimSpace(intro(s.key) + s.text); text != "" {
			b.WriteString(text + "\n\n")
		}
		b.WriteString(section(t, s.key, seen))
	}
	for key := range samples {
		if !seen[key] {
			t.Errorf("there is no key %s", key)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(reference, []byte(b.String()), 0o644))
	}
	if b.String() != string(require.ReadFile(t, reference)) {
		t.Errorf("%s is out of date: run make docs", reference)
	}
	if h := Default().Daemon.History; h.MaxSize != 1<<30 || h.MaxAge.Std() != 30*24*time.Hour {
		t.Errorf("the section of the daemon says how large the history is, and it is %v, %v", h.MaxSize, h.MaxAge)
	}
}

// intro is what a key of the top is, as a sentence.
func intro(key string) string {
	for _, f := range fields(reflect.TypeFor[Policy]()) {
		if doc := f.Tag.Get("doc"); f.key == key {
			return strings.ToUpper(doc[:1]) + doc[1:] + ". "
		}
	}
	return ""
}

// section is the table of a section's keys, and what they refuse.
func section(t *testing.T, key string, seen map[string]bool) string {
	t.Helper()
	table := page.NewTable("key", "is", "takes", "default", "example")
	var refused strings.Builder
	for _, k := range keys(key) {
		s, ok := samples[k.path]
		if !ok {
			t.Errorf("%s has no sample", k.path)
		}
		seen[k.path] = true
		if _, err := Parse("policy.yaml", []byte(with(k.path, s.good))); err != nil {
			t.Errorf("%s: %v", k.path, err)
		}
		_, err := Parse("policy.yaml", []byte(with(k.path, s.bad)))
		bad, ok := errors.AsType[*Error](err)
		if !ok {
			t.Fatalf("%s accepts %s", k.path, s.bad)
		}
		table.Row("`"+k.name+"`", k.Tag.Get("doc"), k.takes(), k.unset(), "`"+s.good+"`")
		fmt.Fprintf(&refused, "%-30s # %s\n", k.name+": "+s.bad, says(bad))
	}
	return table.String() + "\nRefused:\n\n```yaml\n" + refused.String() + "```\n"
}

// says is the message without the path, which the line before it has.
func says(e *Error) string {
	what := e.What
	if path, rest, ok := strings.Cut(what, ": "); ok && !strings.Contains(path, " ") {
		what = rest
	}
	return strings.TrimSuffix(what+"; "+e.Hint, "; ")
}

// A key is one field of the file.
type key struct {
	field
	path  string // as in samples
	name  string // as in its section
	value reflect.Value
}

// keys are those of a section, in the order of the file.
func keys(of string) (all []key) {
	root := reflect.ValueOf(Default()).Elem()
	switch of {
	case "limits":
		return below(reflect.ValueOf(&Default().Defaults.Limits).Elem(), "limits")
	case "match":
		return below(reflect.New(reflect.TypeFor[Match]()).Elem(), "match")
	}
	for _, k := range below(root, "") {
		top, rest, nested := strings.Cut(k.path, ".")
		if nested {
			k.name = rest
		}
		if nested == (of != "") && (!nested || of == strings.TrimSuffix(top, "[]")) {
			all = append(all, k)
		}
	}
	return all
}

// below are the keys in v, those of the rules of a list included.
func below(v reflect.Value, path string) (all []key) {
	for _, f := range fields(v.Type()) {
		x, at := v.Field(f.index), join(path, f.key)
		if x.Kind() == reflect.Slice {
			item := reflect.New(x.Type().Elem())
			if _, ok := item.Interface().(rule); ok {
				all = append(all, below(item.Elem(), at+"[]")...)
				continue
			}
		}
		_, single := x.Addr().Interface().(value)
		if x.Kind() == reflect.Struct && !single && x.Type() != reflect.TypeFor[Match]() && x.Type() != reflect.TypeFor[Limits]() {
			all = append(all, below(x, at)...)
			continue
		}
		all = append(all, key{f, at, f.key, x})
	}
	return all
}

// takes is the type and the range of a key.
func (k *key) takes() string {
	one := k.Tag.Get("one")
	typ := k.Type
	list := typ.Kind() == reflect.Slice
	if list {
		typ = typ.Elem()
	}
	x := reflect.New(typ).Elem()
	var s string
	switch {
	case typ == reflect.TypeFor[Match](), typ == reflect.TypeFor[*Match]():
		return "a [match](#match)"
	case typ == reflect.TypeFor[Limits]():
		return "[limits](#limits)"
	case one != "":
		s = "`" + strings.ReplaceAll(one, "|", "`, `") + "`"
	case typ == reflect.TypeFor[Pattern]():
		s = "a pattern"
	case typ.Kind() == reflect.String:
		s = forms[k.Tag.Get("form")].what
	case typ.Kind() == reflect.Bool:
		s = "`true`, `false`"
	default:
		s = strings.TrimPrefix(wanted(x, nil), "a whole ")
		if r := strings.TrimPrefix(limits(x, k.Tag), "must be "); r != " to " && k.Tag.Get("max") != "" {
			s += ", " + r
		}
	}
	switch {
	case k.Tag.Get("list") == "any":
		return s + ", or a list"
	case list && one != "":
		return "a list of " + s
	case list:
		return "a list, each " + s
	}
	return s
}

// unset is what holds without the key.
func (k *key) unset() string {
	if k.needed() {
		return "required"
	}
	if k.Tag.Get("list") == "any" || k.Type.Kind() == reflect.Pointer {
		return "any"
	}
	switch v := document(k.value); {
	case k.Tag.Get("min") == "1" && k.value.IsZero():
		return "`1`"
	case k.Tag.Get("doc") == "as in defaults":
		return "as in `defaults`"
	case k.Tag.Get("doc") == "as at the top of the file":
		return "as at the top"
	case v == "": // the first word
		word, _, _ := strings.Cut(k.Tag.Get("one"), "|")
		return "`" + word + "`"
	case k.Type == reflect.TypeFor[Limits](), k.Type.Kind() == reflect.Slice && k.value.Len() == 0:
		return "none"
	case k.Type.Kind() == reflect.Slice:
		return "`" + strings.ReplaceAll(fmt.Sprint(v), " ", ", ") + "`"
	default:
		return fmt.Sprintf("`%v`", v)
	}
}

// with is a policy in which one key has this value; a rule gets the other keys that it needs.
func with(path, value string) string {
	needs := map[string][][2]string{
		"agents":         {{"name", "x"}, {"match", "{comm: x}"}},
		"containers":     {{"name", "x"}, {"match", "{container: x}"}},
		"operators":      {{"name", "x"}, {"verbs", "end"}},
		"keep":           {{"name", "x"}, {"match", "{exe: /x}"}, {"reason", "x"}, {"until", "2027-06-30"}},
		"protect":        {{"name", "x"}, {"match", "{comm: x}"}, {"reason", "x"}},
		"brokers.shared": {{"name", "x"}, {"match", "{exe: /x}"}},
	}
	if last, ok := strings.CutPrefix(path, "match."); ok {
		path, value = "protect[].match", fmt.Sprintf("{%s: %s}", last, value)
	}
	if strings.HasPrefix(path, "limits.") {
		path = "defaults." + path
	}
	list, last, inRule := strings.Cut(path, "[].")
	if key, ok := strings.CutPrefix(last, "match."); ok {
		last, value = "match", fmt.Sprintf("{%s: %s}", key, value)
	}
	if inRule {
		given := needs[list]
		if i := slices.IndexFunc(given, func(g [2]string) bool { return g[0] == last }); i >= 0 {
			given[i][1] = value
		} else {
			given = append(given, [2]string{last, value})
		}
		var pairs []string
		for _, g := range given {
			pairs = append(pairs, g[0]+": "+g[1])
		}
		path, value = list, "[{"+strings.Join(pairs, ", ")+"}]"
	}
	names := strings.Split(path, ".")
	text := names[len(names)-1] + ": " + value
	for _, name := range slices.Backward(names[:len(names)-1]) {
		text = name + ": {" + text + "}"
	}
	if names[0] == "version" {
		return text
	}
	return text + "\nversion: 1\n"
}
