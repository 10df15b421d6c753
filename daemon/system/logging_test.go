//go:build linux

package system

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// hostile is a name that a process may give itself.
const hostile = "a\x1b[31m\n{\"level\":\"info\"}\u202e\xff\x00"

func TestLogIsJSON(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	log, end, err := OpenLog("", w, func(string) string { return "" })
	require.NoError(t, err)
	log.Warn().Str(KeyName, hostile).Err(errors.New(hostile)).Msg("refused")
	end()
	w.Close()
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	var line struct{ Level, Message, Name, Error, Time string }
	if err := json.Unmarshal(b, &line); err != nil || bytes.Count(b, []byte("\n")) != 1 || bytes.ContainsAny(b, "\x1b\x00") {
		t.Fatalf("%v %q", err, b)
	}
	if line.Level != "warn" || line.Message != "refused" || line.Time == "" || !strings.HasPrefix(line.Name, "a\x1b[31m\n{") || line.Error == "" {
		t.Errorf("%+v", line)
	}
}

func TestLogOnATerminal(t *testing.T) {
	master, tty, err := pty.Open()
	require.NoError(t, err)
	defer master.Close()
	defer tty.Close()
	env := map[string]string{"NO_COLOR": "1"}
	log, end, err := OpenLog("", tty, func(name string) string { return env[name] })
	require.NoError(t, err)
	defer end()
	log.Warn().Str(KeyName, hostile).Err(errors.New(hostile)).Msg("refused")
	text, err := bufio.NewReader(master).ReadString('\n')
	if err != nil || !strings.Contains(text, "WRN") || !strings.Contains(text, "refused") {
		t.Fatalf("%v %q", err, text)
	}
	if line := strings.TrimRight(text, "\r\n"); strings.ContainsAny(line, "\x1b\x00\r\n") || strings.Contains(line, "\u202e") {
		t.Errorf("%q", line)
	}
}

func TestLogInTheJournal(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(w.Fd()), &st))
	its := fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	for stream, want := range map[string]bool{its: true, "": false, its + "1": false, "1:2": false, "x": false, "1" + its: false} {
		if journalReads(w, stream) != want {
			t.Errorf("%q: %v", stream, !want)
		}
		_, is := writer(w, func(string) string { return stream }).(*journal)
		if is != want {
			t.Errorf("%q: the journal is taken: %v", stream, is)
		}
	}
	var stderr bytes.Buffer
	j := &journal{to: refuses{}, stderr: &stderr}
	if n, err := j.Write([]byte("{}\n")); n != 3 || err != nil || stderr.String() != "{}\n" {
		t.Errorf("%d %v %q", n, err, stderr.String())
	}
}

type refuses struct{}

func (refuses) Write([]byte) (int, error) { return 0, errors.New("no journal") }

// TestLimit: a storm of one kind leaves a few lines and a number, and does not affect
// another kind.
func TestLimit(t *testing.T) {
	var b bytes.Buffer
	plain := zerolog.New(&b)
	d := newLimiter(plain)
	log := plain.Hook(d)
	const storm = 10000
	for range storm {
		log.Warn().Str(KeyName, hostile).Msg("refused")
	}
	log.Info().Msg("serving")
	quiet := log.Level(zerolog.ErrorLevel)
	quiet.Warn().Msg("refused") // disabled by its level, so not counted
	d.flush()
	logged, suppressed, serving := 0, uint64(0), 0
	for line := range strings.Lines(b.String()) {
		var l struct {
			Level, Message, Kind string
			Suppressed           uint64
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		suppressed += l.Suppressed
		switch {
		case l.Message == "refused":
			logged++
		case l.Message == "serving":
			serving++
		case l.Message == "messages suppressed" && l.Kind == "refused" && l.Level == "warn":
		default:
			t.Errorf("%s", line)
		}
	}
	if logged < kindBurst || logged == storm || uint64(logged)+suppressed != storm || serving != 1 {
		t.Errorf("%d logged, %d suppressed, %d of another kind", logged, suppressed, serving)
	}
}

// TestLimitOfAllKinds: many kinds of messages do not make many lines, and errors are
// logged nevertheless.
func TestLimitOfAllKinds(t *testing.T) {
	var b bytes.Buffer
	d := newLimiter(zerolog.New(io.Discard))
	log := zerolog.New(&b).Hook(d)
	for i := range 100 * kindBurst {
		log.Warn().Msg(fmt.Sprint(i % 100))
	}
	log.Error().Msg("failed")
	d.flush()
	if n := bytes.Count(b.Bytes(), []byte("\n")); n < allBurst || n > 2*allBurst {
		t.Errorf("%d lines", n)
	}
	if !bytes.Contains(b.Bytes(), []byte("failed")) {
		t.Error("the error is not among them")
	}
}

// TestFullPipe: a full pipe does not block logging, and the number of lost lines is
// logged when the pipe is read again.
func TestFullPipe(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	q := newQueue(w)
	line := []byte(`{"message":"` + strings.Repeat("a", 1000) + "\"}\n")
	const lines = 3 * queueLines
	written := make(chan struct{})
	go func() {
		defer close(written)
		for range lines {
			q.Write(line)
		}
	}()
	require.Soon(t, written, "logging waits for a reader")
	read := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(r)
		read <- b
	}()
	q.close()
	w.Close()
	var came, dropped uint64
	for line := range strings.Lines(string(<-read)) {
		var l struct{ Dropped uint64 }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		if dropped += l.Dropped; l.Dropped == 0 {
			came++
		}
	}
	if dropped == 0 || came+dropped != lines {
		t.Errorf("%d lines came, %d were dropped, want %d together", came, dropped, lines)
	}
}

// TestLimiterBounded: messages are constants; if they were not, memory would still be bounded.
func TestLimiterBounded(t *testing.T) {
	d := newLimiter(zerolog.Nop())
	log := zerolog.New(io.Discard).Hook(d)
	for i := range 10 * maxKinds {
		log.Info().Msg(fmt.Sprint(i))
	}
	d.flush()
	if len(d.kinds) > maxKinds+1 {
		t.Errorf("%d kinds", len(d.kinds))
	}
}

// TestLogKeysAreConstants: every field of every line of the daemon has its key in
// one place, and every message is a constant.
func TestLogKeysAreConstants(t *testing.T) {
	fields := []string{"Str", "Strs", "Stringer", "Int", "Int64", "Uint32", "Uint64", "Bool", "Float64", "Bytes", "Dur", "Time", "Any", "Interface", "AnErr", "Msgf"}
	var files []string
	for _, pattern := range []string{"../*.go", "../*/*.go"} {
		more, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, more...)
	}
	set, seen := gotoken.NewFileSet(), 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			literal, isLiteral := call.Args[0].(*ast.BasicLit)
			switch {
			case method.Sel.Name == "Msg":
				seen++
				if !isLiteral {
					t.Errorf("%v: a message is no constant", set.Position(call.Pos()))
				}
			case isLiteral && literal.Kind == gotoken.STRING && slices.Contains(fields, method.Sel.Name):
				t.Errorf("%v: the key %s is no constant", set.Position(call.Pos()), literal.Value)
			}
			return true
		})
	}
	if seen < 30 {
		t.Errorf("only %d messages found", seen)
	}
}

// TestLogKeysAreTheirOwn: keys differ from each other and from zerolog's.
func TestLogKeysAreTheirOwn(t *testing.T) {
	f, err := parser.ParseFile(gotoken.NewFileSet(), "keys.go", nil, 0)
	require.NoError(t, err)
	seen := map[string]bool{
		`"` + zerolog.LevelFieldName + `"`: true, `"` + zerolog.MessageFieldName + `"`: true,
		`"` + zerolog.TimestampFieldName + `"`: true, `"` + zerolog.ErrorFieldName + `"`: true,
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok {
			if seen[l.Value] {
				t.Errorf("the key %s is taken", l.Value)
			}
			seen[l.Value] = true
			if strings.Contains(l.Value, "argv") {
				t.Errorf("the key %s", l.Value)
			}
		}
		return true
	})
}

func TestLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := openFile(path)
	require.NoError(t, err)
	defer l.close()
	line := []byte(strings.Repeat("a", 1000) + "\n")
	for range 3000 {
		_, err := l.Write(line)
		require.NoError(t, err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > maxFile || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// TestLogIsFIFO: a FIFO that nobody reads is an error, and does not block.
func TestLogIsFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "daemon.log")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	opened := make(chan error, 1)
	go func() {
		_, _, err := OpenLog(path, os.Stderr, func(string) string { return "" })
		opened <- err
	}()
	if require.Soon(t, opened, "it blocks") == nil {
		t.Error("it is used")
	}
}
