//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// The shop is a session with a server, a database whose creator is dead, and two jobs
// of one shell. It starts one more of each program that is ordered by name.
const shop = `exec 9>%s 3<%s
./web 300 &
(./db 300 &)
./boss jobs &
echo ready >&9
while read name <&3; do ./$name 300 & done`

const jobs = `./job 301 & ./job 302 & wait`

// later is a session that is calm until it gets an order.
const later = `exec 3<%s; echo waiting >%s; read go <&3; exec %s 2000 4 2`

// A watcher is a user of lineage top on a terminal, with the shop to look at.
type watcher struct {
	*stage.Terminal
	daemon *stage.Process
	m      *stage.Marker
	run    *stage.Process
	orders *os.File
}

// newTop opens the shop and looks at it. Sessions that before starts are above the shop.
func newTop(t *testing.T, before func(*stage.Instance), args ...string) *watcher {
	t.Helper()
	i := stage.New(t)
	w := &watcher{daemon: i.Daemon(), m: stage.NewMarker(t, i.Dir)}
	if before != nil {
		before(i)
	}
	for name, of := range map[string]string{"web": "sleep", "db": "sleep", "job": "sleep", "late": "sleep", "boss": "sh"} {
		require.NoError(t, os.Symlink("/bin/"+of, filepath.Join(i.Dir, name)))
	}
	var path string
	path, w.orders = fifo(i, "orders")
	for name, script := range map[string]string{"shop": fmt.Sprintf(shop, w.m.Path, path), "jobs": jobs} {
		require.NoError(t, os.WriteFile(filepath.Join(i.Dir, name), []byte(script), 0o600))
	}
	w.run = i.Start([]string{"run", "-q", "--name", "shop", "--", "sh", "shop"}, nil)
	w.m.Ready()
	w.Terminal = i.TerminalOf(80, 24, append([]string{stage.Lineage, "top"}, args...)...)
	w.See("the shop", hasAll("web 300", "db 300", "job 301", "job 302"))
	return w
}

// fifo makes a FIFO on which neither side must wait.
func fifo(i *stage.Instance, name string) (string, *os.File) {
	i.T.Helper()
	path := filepath.Join(i.Dir, name)
	require.NoError(i.T, unix.Mkfifo(path, 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(i.T, err)
	i.T.Cleanup(func() { f.Close() })
	return path, f
}

// order makes the shop start one more.
func (w *watcher) order(name string) {
	w.T.Helper()
	_, err := fmt.Fprintln(w.orders, name)
	require.NoError(w.T, err)
}

func hasAll(words ...string) func(string) bool {
	return func(screen string) bool {
		for _, word := range words {
			if !strings.Contains(screen, word) {
				return false
			}
		}
		return true
	}
}

func hasNone(words ...string) func(string) bool {
	return func(screen string) bool {
		for _, word := range words {
			if strings.Contains(screen, word) {
				return false
			}
		}
		return true
	}
}

func both(a, b func(string) bool) func(string) bool {
	return func(screen string) bool { return a(screen) && b(screen) }
}

// selected is the row under the cursor, and its line number.
func selected(screen string) (row string, at int) {
	for line := range strings.Lines(screen) {
		if strings.HasPrefix(strings.TrimPrefix(line, "│"), "›") {
			return tree(line), at
		}
		at++
	}
	return "", -1
}

func on(word string) func(string) bool {
	return func(screen string) bool {
		row, _ := selected(screen)
		return strings.Contains(row, word)
	}
}

// find goes to the row that the word is in.
func (w *watcher) find(word string) string {
	w.T.Helper()
	w.Press("/")
	w.Type(word)
	w.Press("Enter")
	return w.See("row of "+word, on(word))
}

// folded reports whether the jobs are folded into their shell's row.
func folded(screen string) bool {
	return hasAll("db 300", "+2")(screen) && !strings.Contains(tree(screen), "job 3")
}

// tree is the screen without the details.
func tree(screen string) string {
	var b strings.Builder
	for line := range strings.Lines(screen) {
		b.WriteString(string([]rune(line)[:min(47, len([]rune(line)))]) + "\n")
	}
	return b.String()
}

// However often the terminal changes its size, each line is drawn, and a repaint
// changes nothing.
func TestTopResizedOften(t *testing.T) {
	w := newTop(t, nil, "--mouse")
	m := stage.NewMarker(t, w.Dir)
	script := "exec 9>" + m.Path + "; for n in $(seq 60); do sleep $((300 + n)) & done; echo ready >&9; wait"
	w.Start([]string{"run", "-q", "--name", "many", "--", "sh", "-c", script}, nil)
	m.Ready()
	row, _ := selected(w.find("db 300"))
	pid := regexp.MustCompile(`\d+`).FindString(row)
	w.Resize(180, 50)
	w.See("complete details", hasAll("reparented from", "it was reparented", "policy")) // the new parent may be shown late
	random := rand.New(rand.NewPCG(18, 1))
	for n := range 24 {
		width, height := 40+random.IntN(161), 10+random.IntN(41)
		w.Resize(width, height)
		what := fmt.Sprintf("screen of %dx%d, size %d", width, height, n)
		drawn := func(s string) bool {
			lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
			return len(lines) == height && wide(s) <= width && on(pid)(s) && wide(lines[1]) >= width-1 &&
				!slices.ContainsFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" })
		}
		w.See(what, drawn)
		if n%3 != 0 {
			continue
		}
		before := w.See(what+" that is calm", func(s string) bool {
			time.Sleep(100 * time.Millisecond)
			return drawn(s) && calm(w.Screen()) == calm(s)
		})
		w.Press("C-l")
		time.Sleep(100 * time.Millisecond) // nothing says that it has been repainted
		w.Agrees(what, func() error {
			if after := w.Screen(); calm(after) != calm(before) {
				return fmt.Errorf("before a repaint:\n%s\nafter:\n%s", before, after)
			}
			return nil
		})
	}
	// After many resizes tmux leaves lines on the screen that it restores, with htop too.
	w.Press("q")
	w.See("end of top", hasAll("lngtest-after 0"))
}

// calm is a screen without the parts that change even when calm: figures, the room they
// take, and the letter of a state.
func calm(screen string) string {
	return regexp.MustCompile(`●.|[\d.]+[a-zA-Z]*|[ ─▁-█]+|-`).ReplaceAllString(screen, "")
}

// wide is the width of the longest line on the screen.
func wide(screen string) (most int) {
	for line := range strings.Lines(screen) {
		most = max(most, len([]rune(strings.TrimRight(line, "\n "))))
	}
	return most
}

// While 2,000 processes a second come and go above it, the selected row stays
// where it is.
func TestTopInAStorm(t *testing.T) {
	var storm *stage.Marker
	var orders *os.File
	w := newTop(t, func(i *stage.Instance) {
		storm = stage.NewMarker(t, i.Dir)
		var path string
		path, orders = fifo(i, "storm")
		i.Start([]string{"run", "-q", "--name", "early", "--", "sh", "-c", fmt.Sprintf(later, path, storm.Path, stage.Program("vforkstorm"))}, storm.Env())
		storm.Line("waiting", 1)
	})
	w.Press("e") // what the storm leaves has exited
	w.See("exited processes", hasNone("exited hidden"))
	_, line := selected(w.find("db 300"))
	_, err := orders.WriteString("go\n")
	require.NoError(t, err)
	looks, most := 0, 0
	rate := regexp.MustCompile(`(\d+) forks/s`)
	for storm.Drain(); len(storm.Lines("storm")) == 0; storm.Drain() {
		s := w.Screen()
		if row, at := selected(s); at != line || !strings.Contains(row, "db 300") {
			t.Fatalf("look %d: %q is selected on line %d, was on line %d", looks, row, at, line)
		}
		if m := rate.FindStringSubmatch(s); m != nil {
			n, _ := strconv.Atoi(m[1])
			most = max(most, n)
		}
		looks++
	}
	w.See("what the storm left", hasAll(" ×"))
	if row, at := selected(w.Screen()); at != line || !strings.Contains(row, "db 300") {
		t.Errorf("after the storm %q is selected on line %d, was on line %d", row, at, line)
	}
	forks, ms := stage.Number(t, storm.Lines("storm")[0][0]), stage.Number(t, storm.Lines("storm")[0][1])
	if most == 0 || looks < 3 { // a look starts tmux
		t.Errorf("at most %d forks/s in %d looks", most, looks)
	}
	t.Logf("figure: %d forks in %d ms, at most %d/s shown, %d looks", forks, ms, most, looks)
	w.End("--now", "early")
	storm.MustBeGone()
	w.close("SIGTERM")
}

// x asks first: keys typed before it is read do nothing, Enter cancels, and only an
// explicit choice ends it.
func TestTopEnds(t *testing.T) {
	w := newTop(t, nil)
	w.find("db 300")
	asked := both(hasAll("End session", "shop?", "[ Cancel ]", "processes will be killed", "Cancel: no signal is sent."), hasNone("asking what would die"))
	closed := hasNone("Cancel")
	active := func(when string) {
		t.Helper()
		if s := w.Record("shop"); s.State != "active" {
			t.Fatalf("%s the session is %s", when, s.State)
		}
	}
	w.Press("x", "Tab", "Enter", "Enter")
	w.See("dialog that is still open", asked)
	active("after keys in the first 300 ms")
	w.Insist("end of the dialog", closed, "Enter")
	active("after Enter in a new dialog")
	w.Insist("tree", hasAll("x end"), "Escape") // one Enter too many opened the details

	w.Press("x")
	w.See("dialog", asked)
	w.Insist("choice to end", hasAll("[ End ]"), "Left", "Right")
	active("before the choice was confirmed")
	w.Press("Enter")
	w.See("result", hasAll("Result", "shop ended, clean: 6 of 6 processes"))
	w.m.Gone()
	if r := w.Record("shop"); r.State != "ended" || r.EndReason != "end" {
		t.Errorf("the session is %+v", r)
	}
	w.run.Wait()
	w.Insist("end of the dialog", hasNone("Enter closes"), "Enter")
	w.close("q")
}

// When the daemon is killed and comes back, a banner is shown; fold, selection, line
// and everything else stay.
func TestTopOutlivesTheDaemon(t *testing.T) {
	w := newTop(t, nil)
	w.find("boss jobs")
	w.Press("Left")
	w.See("fold", folded)
	row, at := selected(w.find("db 300"))
	pid := regexp.MustCompile(`\d+`).FindString(row)
	same := func(s string) bool {
		row, now := selected(s)
		return now == at && strings.Contains(row, pid+" ") && folded(s)
	}
	// A killed daemon forgets dead processes that are not in its history yet.
	written(w.Instance, "shop", "EXISTS (SELECT 1 FROM processes WHERE session = sessions.id AND json_extract(CAST(doc AS TEXT), '$.Exited') > 0)")
	require.NoError(t, w.daemon.Process.Kill())
	w.daemon.Stop()
	w.See("banner, and the tree as it was", both(hasAll("the daemon is away"), same))
	w.Daemon()
	w.See("end of the banner", both(hasNone("is away"), same))
	w.order("late")
	w.See("new life, and the rest as it was", both(hasAll("late 300"), same))
	w.close("C-c")
}

// pid is the PID of top.
func (w *watcher) pid() int {
	text, err := os.ReadFile(filepath.Join(w.Dir, "pid"))
	require.NoError(w.T, err)
	return stage.Number(w.T, strings.TrimSpace(string(text)))
}

// restored checks the terminal after top has ended.
func (w *watcher) restored() {
	w.T.Helper()
	s := w.See("end of top", hasAll("lngtest-after "))
	if !strings.HasPrefix(s, "lngtest-before\nlngtest-after ") || strings.Contains(s, "web 300") {
		w.T.Errorf("the screen that was there is not there again:\n%s", s)
	}
	for name, want := range map[string]string{"alternate_on": "0", "cursor_flag": "1", "mouse_any_flag": "0", "insert_flag": "0", "keypad_flag": "0"} {
		if got := w.State(name); got != want {
			w.T.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	before, err := os.ReadFile(filepath.Join(w.Dir, "before"))
	require.NoError(w.T, err)
	after, err := os.ReadFile(filepath.Join(w.Dir, "after"))
	require.NoError(w.T, err)
	if string(before) != string(after) || len(before) == 0 {
		w.T.Errorf("stty -a before:\n%s\nafter:\n%s", before, after)
	}
}

// close leaves top, and ends the shop. However top was left, the terminal is restored,
// and leaving ends no session.
func (w *watcher) close(leave string) {
	w.T.Helper()
	if w.State("alternate_on") != "1" {
		w.T.Error("top draws on the screen that others have written on")
	}
	live := w.Record("shop").Live
	if leave == "SIGTERM" {
		require.NoError(w.T, unix.Kill(w.pid(), unix.SIGTERM))
	} else {
		w.Press(leave)
	}
	w.restored()
	if now := w.Record("shop").Live; now != live {
		w.T.Errorf("leaving top left %d of %d alive", now, live)
	}
	w.shut()
}

// shut ends the shop if it is not over.
func (w *watcher) shut() {
	w.T.Helper()
	if w.Record("shop").State != "ended" {
		w.End("--now", "shop")
	}
	w.m.MustBeGone()
	w.run.Wait()
}
