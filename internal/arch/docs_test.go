package arch

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// dashboard has the fields of packaging/dashboard.json that matter here.
type dashboard struct {
	Templating struct{ List []struct{ Query string } }
	Panels     []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

// TestQueries compares the queries of the dashboard and of the alert rules with
// docs/MONITORING.md: each metric is listed, with the labels that the queries use.
func TestQueries(t *testing.T) {
	metrics := make(map[string][]string)
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [a-z]+ \\|([^|]*)\\|").FindAllStringSubmatch(read(t, "docs/MONITORING.md"), -1) {
		metrics[m[1]] = regexp.MustCompile("[a-z]+").FindAllString(m[2], -1)
	}
	// Metrics of the Go library, which MONITORING.md names as a group.
	metrics["process_cpu_seconds_total"], metrics["process_resident_memory_bytes"], metrics["up"] = nil, nil, nil

	var d dashboard
	require.NoError(t, json.Unmarshal([]byte(read(t, "packaging/dashboard.json")), &d))
	var queries []string
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	seen := make(map[string]bool)
	check := func(q string) {
		for _, m := range regexp.MustCompile(`\b((?:lineage|process|go)_[a-z_]+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(q, -1) {
			name := m[1]
			if base, cut := strings.CutSuffix(name, "_bucket"); cut {
				name = base
			}
			seen[name] = true
			labels, known := metrics[name]
			if !known {
				t.Errorf("docs/MONITORING.md has no %s: %s", name, q)
			}
			asked := regexp.MustCompile(`(\w+)(?:=|!=|=~|!~)`).FindAllStringSubmatch(m[2], -1)
			if by := regexp.MustCompile(`by \(([^)]*)\)`).FindStringSubmatch(q); by != nil &&
				strings.Count(q, "by (") == 1 {
				for label := range strings.SplitSeq(by[1], ", ") {
					asked = append(asked, []string{"", label})
				}
			}
			for _, l := range asked {
				if !slices.Contains(slices.Concat(labels, []string{"job", "instance", "le"}), l[1]) {
					t.Errorf("%s has no label %s: %s", name, l[1], q)
				}
			}
		}
	}
	for _, q := range queries {
		check(q)
	}
	for _, v := range d.Templating.List {
		check(v.Query)
	}
	for name := range metrics {
		if strings.HasPrefix(name, "lineage_") && !seen[name] {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
	for line := range strings.Lines(read(t, "packaging/alerts.yml")) {
		if !strings.Contains(line, "alert:") && !strings.Contains(line, "summary:") && !strings.Contains(line, "description:") {
			check(line)
		}
	}
	t.Run("promtool", func(t *testing.T) {
		promtool, err := filepath.Abs("../../.cache/promtool/promtool")
		if _, absent := os.Stat(promtool); err != nil || absent != nil {
			t.Skip("no promtool: make test-alerts fetches it")
		}
		rules := "groups:\n- name: dashboard\n  rules:\n"
		for i, q := range queries {
			q = strings.ReplaceAll(q, "$__rate_interval", "5m")
			rules += fmt.Sprintf("  - {record: 'dashboard:%d', expr: %q}\n", i, q)
		}
		file := filepath.Join(t.TempDir(), "rules.yml")
		require.NoError(t, os.WriteFile(file, []byte(rules), 0o644))
		if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// TestDaemonSet: that of packaging/kubernetes gives the daemon what the command for docker in docs/CONTAINERS.md
// gives it, which is tested, and the policy. The one that unloads has the daemon's privileges.
func TestDaemonSet(t *testing.T) {
	text := read(t, "docs/CONTAINERS.md")
	block := func(name string) string {
		m := regexp.MustCompile("(?s)<!-- recipe: " + name + " -->\n```[a-z]+\n(.*?)```").FindStringSubmatch(text)
		require.Equal(t, len(m), 2)
		return m[1]
	}
	var set, unload daemonSet
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "packaging/kubernetes/daemonset.yaml")), &set))
	pod := set.Spec.Template.Spec
	require.Equal(t, len(pod.Containers), 1)
	c := pod.Containers[0]
	got := []string{"security-opt apparmor=" + strings.ToLower(c.SecurityContext.AppArmorProfile.Type)}
	if pod.HostPID {
		got = append(got, "pid host")
	}
	for _, name := range c.SecurityContext.Capabilities.Drop {
		got = append(got, "cap-drop "+name)
	}
	for _, name := range c.SecurityContext.Capabilities.Add {
		got = append(got, "cap-add "+name)
	}
	for i, m := range c.VolumeMounts {
		require.Equal(t, pod.Volumes[i].Name, m.Name)
		if path := pod.Volumes[i].HostPath.Path; path != "" {
			got = append(got, "v "+path+":"+m.MountPath)
		}
	}
	var want []string
	for _, m := range regexp.MustCompile(`--?(security-opt|pid|cap-drop|cap-add|v) (\S+)`).FindAllStringSubmatch(block("image-daemon"), -1) {
		want = append(want, m[1]+" "+m[2])
	}
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
	if len(want) < 10 || !slices.Equal(c.Args, []string{"daemon"}) {
		t.Errorf("%q, arguments %q", want, c.Args)
	}

	require.NoError(t, yaml.Unmarshal([]byte(read(t, "packaging/kubernetes/unload/daemonset.yaml")), &unload))
	require.Equal(t, len(unload.Spec.Template.Spec.InitContainers), 1)
	u := unload.Spec.Template.Spec.InitContainers[0]
	require.Equal(t, fmt.Sprintf("%+v", u.SecurityContext), fmt.Sprintf("%+v", c.SecurityContext))
	if !unload.Spec.Template.Spec.HostPID || !slices.Equal(u.Args, []string{"daemon", "--unload"}) {
		t.Errorf("%+v", u)
	}
	for _, m := range u.VolumeMounts {
		if !slices.Contains(c.VolumeMounts, m) {
			t.Errorf("the daemon has no %+v", m)
		}
	}
}

// daemonSet is what is read of a manifest.
type daemonSet struct {
	Spec struct {
		Template struct {
			Spec struct {
				HostPID        bool `yaml:"hostPID"`
				Containers     []contained
				InitContainers []contained `yaml:"initContainers"`
				Volumes        []struct {
					Name     string
					HostPath struct{ Path string } `yaml:"hostPath"`
				}
			}
		}
	}
}

type contained struct {
	Args            []string
	SecurityContext struct {
		AppArmorProfile struct{ Type string } `yaml:"appArmorProfile"`
		Capabilities    struct{ Drop, Add []string }
	} `yaml:"securityContext"`
	VolumeMounts []mounted `yaml:"volumeMounts"`
}

type mounted struct {
	Name      string
	MountPath string `yaml:"mountPath"`
}

func read(t *testing.T, path string) string {
	t.Helper()
	b := require.ReadFile(t, filepath.Join("../..", path))
	return string(b)
}

// oddWords are phrases that hide the noun, or make a reader stop. The value says what
// to write instead.
var oddWords = map[string]string{
	`\bfor who\b|\b(of|to|by|from|as) who\b|\b[Ww]hoever\b|\b[Ww]hom\b`: "the process, the user, the caller",
	`\b[Nn]obody\b|\b[Ss]omebody\b|\b[Ee]verybody\b|\banybody else\b`:   "no process, a user, every member",
	`\b(is|are|was|were|be|been) told\b|\btold of\b|\btells? of\b`:      "is reported, reports",
	`\b(goes|go|went|going) on\b`:                                       "continues",
	`\b(stands?|stood) in\b`:                                            "is in",
	`(came|comes|come|becomes) of (it|them|that|each)`:                  "the result",
	`\bso (many|long)\b`:                                                "this many, the number of",
	`\bby itself\b|\bby themselves\b`:                                   "automatically, alone",
	`\bof before\b`:                                                     "the previous one",
	`\b[Ss]trangers?\b`:                                                 "outsider",
	`\bsessions? beside\b|[Cc]ompanion session|[Bb]rokered (work|by)`:   "related session, delegated work",
	`\b(no|any) more\b`:                                                 "no longer",
	`\banother than\b`:                                                  "other than",
	`\banew\b`:                                                          "again",
	`\bas it stands\b`:                                                  "unchanged",
}

// isNo finds "is no X" for "is not an X"; after "there" it is plain.
var isNo = regexp.MustCompile(`\b(\w+) (?:is|are|was|were) no [a-z]+`)

// odd are the phrases of a text that hide the noun, each with what to write instead.
func odd(text string) (all []string) {
	for odd, plain := range oddWords {
		if found := regexp.MustCompile(odd).FindString(text); found != "" {
			all = append(all, fmt.Sprintf("%q: %s", found, plain))
		}
	}
	for _, m := range isNo.FindAllStringSubmatch(text, -1) {
		if !strings.EqualFold(m[1], "there") && !strings.HasSuffix(m[0], " no longer") {
			all = append(all, fmt.Sprintf("%q: is not a", m[0]))
		}
	}
	return all
}

// TestDocWords: the documents, the manual pages and the policies that are installed are
// written in plain words.
func TestDocWords(t *testing.T) {
	var files []string
	for _, path := range pages(t) {
		files = append(files, "../../"+path)
	}
	for _, pattern := range []string{"docs/*.json", "packaging/*.y*ml", "packaging/man/*"} {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text := require.ReadFile(t, file)
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			for _, phrase := range odd(line) {
				t.Errorf("%s:%d: %s", filepath.Base(file), n, phrase)
			}
		}
	}
}

// TestStringWords: so are the texts of the program: errors, help, logs, the terminal view.
func TestStringWords(t *testing.T) {
	goFiles(t, func(path string, fset *token.FileSet, f *ast.File) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "../../internal/") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				text, err := strconv.Unquote(l.Value)
				require.NoError(t, err)
				for _, phrase := range odd(text) {
					t.Errorf("%v: %s", fset.Position(l.Pos()), phrase)
				}
			}
			return true
		})
	})
}
