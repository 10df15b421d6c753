package tui

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/golden"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

const pyenv = "/home/ada/.local/share/pyenv/versions/3.11.7/bin/python3"

// load is a host at work: 28 sessions, some of which warn of something.
func load() *api.Frame {
	f := &api.Frame{Head: api.Head{Kind: "snapshot"}, TimeNS: 4200e9,
		Status: &api.WatchStatus{Level: 4, Mode: "enforce", SelfCheck: &api.SelfCheck{OK: true, At: at(-30)}}}
	add := func(name string, warns func(*api.Session), argv ...string) {
		n := len(f.Sessions)
		root := live(2000+100*n, 1, 1, argv...)
		root.Comm = argv[0][strings.LastIndexByte(argv[0], '/')+1:]
		root.Session, root.Evidence.Kind = fmt.Sprintf("%c%cs%03d", 'a'+n%26, 'q'-n%9, n), "root"
		s := api.Session{ID: root.Session, Name: name, UID: 1000, State: api.StateActive, Root: &root, Live: 3, Started: root.Started, RSSBytes: 45 << 20,
			CPUSeconds: 3, Forks: 7, Peak: 5, Level: 4, Mode: "enforce", GraceSeconds: 5}
		if warns != nil {
			warns(&s)
		}
		f.Sessions, f.Upsert = append(f.Sessions, s), append(f.Upsert, root)
		for i := range 2 {
			p := live(root.PID+1+i, root.PID, root.PID, pyenv, "/srv/deployments/current/worker.py", fmt.Sprint(i))
			p.Comm, p.Session = "python3", root.Session
			f.Upsert = append(f.Upsert, p)
		}
	}
	add(
		"web-dev",
		func(s *api.Session) { s.Ports, s.RSSBytes = []int{5173, 24678}, 233<<20 },
		"/usr/local/bin/node",
		"/home/ada/projects/shop/node_modules/.bin/vite",
		"--port",
		"5173",
	)
	add("agent", func(s *api.Session) { s.Leftovers, s.Orphans = 2, 2 }, "/opt/agents/claude/bin/claude", "--resume")
	add("ci-loop", func(s *api.Session) { s.Zombies, s.Forks = 6, 9647 }, "bash", "/srv/ci/runner/loop.sh")
	add("integration-tests-of-shop", func(s *api.Session) { s.Leftovers, s.Zombies, s.Orphans = 12, 3, 14 }, pyenv, "-m", "pytest", "-x", "tests/integration")
	add("", func(s *api.Session) { s.Leftovers = 5 }, pyenv, "srv.py", "5173")
	add("kept-db", func(s *api.Session) { s.Kept, s.Orphans = true, 1 }, "/usr/lib/postgresql/15/bin/postgres", "-D", "/var/lib/postgresql/15/main")
	add("storm10k", func(s *api.Session) { s.Live, s.RSSBytes = 10001, 79<<30 }, "dash", "-c", "while :; do sleep 1 & done")
	add("", func(s *api.Session) { s.State, s.EndReason, s.Deadline = "condemned", "end", at(4) }, "dd", "if=/dev/zero", "of=/dev/null")
	add("nightly-build-and-upload", func(s *api.Session) {
		s.State, s.EndReason, s.Deadline, s.Degraded = "ending", "max_rss", at(9), []string{"a birth was missed"}
		s.Root.FirstArgv = []string{"/bin/bash", "/srv/ci/nightly.sh"} // which executed make
	}, "make", "-j16", "release")
	add("tree-of-six", func(s *api.Session) { s.Degraded, s.Leftovers = []string{"a birth was missed"}, 1 }, "sh", "-c", "./deep 6")
	for i := range 18 {
		add(fmt.Sprintf("job-%d", i), nil, "sh", "-c", fmt.Sprintf("./job %d", i))
	}
	return f
}

var (
	noted = regexp.MustCompile(`(\d+) (left|zomb)(?:over|ie)s?`)
	words = regexp.MustCompile(`kill \d+s|degraded`)
)

// warnings are what a session's row warns of, in a column or behind the name.
func warnings(head, row string) (all []string) {
	cells := []rune(row)
	for _, column := range []string{"ORPH", "LEFT", "ZOMB"} {
		before, _, found := strings.Cut(head, column)
		if i := len([]rune(before)); found {
			if n := strings.TrimSpace(string(cells[i : i+4])); n != "" {
				all = append(all, n+" "+strings.ToLower(column))
			}
		}
	}
	for _, m := range noted.FindAllStringSubmatch(row, -1) {
		all = append(all, m[1]+" "+m[2])
	}
	all = append(all, words.FindAllString(row, -1)...)
	slices.Sort(all)
	return all
}

// rowsOfSessions are the warnings of the session rows on a screen, by the session's id.
func (s *screen) rowsOfSessions() map[string]string {
	lines := strings.Split(ansi.Strip(s.draw()), "\n")
	found := map[string]string{}
	for i, r := range s.view.Window() {
		if r.Session != nil {
			found[r.Session.ID] = fmt.Sprint(warnings(lines[1], lines[2+i]))
		}
	}
	return found
}

// The first screen of a host at work is a table with the program of each session, and
// warns of the same at every width; so does the tree.
func TestFirstScreen(t *testing.T) {
	for _, keys := range []string{"", "z"} {
		want := map[string]string{}
		for _, size := range []struct{ width, height int }{{200, 50}, {120, 30}, {80, 24}} {
			s := newScreen(t, newFake(), Options{}, size.width, size.height)
			s.frames(load())
			s.press(keys)
			if folded := s.view.SessionsFolded(); folded != (keys == "") {
				t.Fatalf("%v: folded %t", size, folded)
			}
			got := s.rowsOfSessions()
			if size.width == 200 {
				want = got
			}
			for _, id := range slices.Sorted(maps.Keys(got)) {
				seen, ok := want[id]
				if size.width < 120 && strings.Contains(seen, "kill") { // of a session that is ending, the line at the bottom says the rest
					seen = strings.Replace(seen, "degraded ", "", 1)
				}
				if ok && got[id] != seen {
					t.Errorf("%d columns, %q: %s warns of %s, at 200 of %s", size.width, keys, id, got[id], seen)
				}
			}
			if keys != "" {
				continue
			}
			for i, line := range strings.Split(ansi.Strip(s.draw()), "\n")[2:] {
				rows := s.view.Window()
				if i >= len(rows) {
					break
				}
				argv, program, _ := display.Began(rows[i].Session.Root)
				if program = cmp.Or(program, path.Base(argv[0])); !strings.Contains(line, "  "+program) {
					t.Errorf("%d columns: the program %s is not on its row:\n%s", size.width, program, line)
				}
			}
			t.Run(fmt.Sprintf("%dx%d", size.width, size.height), func(t *testing.T) {
				golden.RequireEqual(t, s.draw()+"\n")
			})
		}
	}
}
