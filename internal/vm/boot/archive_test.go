//go:build linux

package boot

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

type member struct {
	mode int
	body string
}

// read returns an archive as the kernel's initramfs.c unpacks it.
func read(t *testing.T, data []byte) (names []string, members map[string]member) {
	t.Helper()
	members = map[string]member{}
	for r := bytes.NewReader(data); ; {
		header := make([]byte, 110)
		_, err := io.ReadFull(r, header)
		require.NoError(t, err)
		if string(header[:6]) != "070701" {
			t.Fatalf("magic %q", header[:6])
		}
		field := func(n int) int {
			v, err := strconv.ParseInt(string(header[6+8*n:14+8*n]), 16, 64)
			require.NoError(t, err)
			return int(v)
		}
		take := func(n, before int) []byte {
			b := make([]byte, n+(-(before+n)&3))
			_, err := io.ReadFull(r, b)
			require.NoError(t, err)
			return b[:n]
		}
		name := strings.TrimSuffix(string(take(field(11), 110)), "\x00")
		if name == "TRAILER!!!" {
			require.Equal(t, r.Len(), 0)
			return names, members
		}
		body := take(field(6), 0)
		names = append(names, name)
		members[name] = member{field(1), string(body)}
	}
}

func TestArchive(t *testing.T) {
	var b bytes.Buffer
	a := newArchive(&b)
	a.dir("bin")
	a.char("dev/console", 5, 1)
	a.file("/src/a/b/one", []byte("1"))
	a.file("src/a/empty", nil)
	a.file("src/a/four", []byte("4444"))
	a.link("usr/bin", "/bin")
	require.NoError(t, a.close())
	names, got := read(t, b.Bytes())
	want := "bin dev dev/console src src/a src/a/b src/a/b/one src/a/empty src/a/four usr usr/bin"
	if strings.Join(names, " ") != want {
		t.Errorf("names %v, want %s", names, want)
	}
	for name, m := range map[string]member{
		"src/a":       {modeDir, ""},
		"src/a/b/one": {modeFile, "1"},
		"src/a/empty": {modeFile, ""},
		"src/a/four":  {modeFile, "4444"},
		"usr/bin":     {modeLink, "/bin"},
		"dev/console": {modeChar, ""},
	} {
		if got[name] != m {
			t.Errorf("%s is %+v, want %+v", name, got[name], m)
		}
	}
}

type failing struct{ after int }

var errFull = errors.New("full")

func (f *failing) Write(p []byte) (int, error) {
	if f.after -= len(p); f.after < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestArchiveReportsTheFirstError(t *testing.T) {
	for after := 0; after < 300; after += 10 {
		a := newArchive(&failing{after})
		a.file("one", make([]byte, 100))
		if err := a.close(); !errors.Is(err, errFull) {
			t.Errorf("with room for %d bytes: %v", after, err)
		}
	}
}
