//go:build linux

package supervise

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// nobody is a user that owns nothing in any test.
const nobody = 65534

// nobodys returns a directory of that user inside another one of that user.
func nobodys(t *testing.T) string {
	t.Helper()
	require.Root(t)
	top := t.TempDir()
	dir := filepath.Join(top, "top", "dir")
	require.NoError(t,
		os.Chmod(filepath.Dir(top), 0o755), os.MkdirAll(dir, 0o755),
		os.Chown(filepath.Dir(dir), nobody, nobody), os.Chown(dir, nobody, nobody),
	)
	return dir
}

func secret(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(name, []byte("secret"), 0o600))
	return name
}

func TestReportFile(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old.json")
	require.NoError(t, os.WriteFile(old, []byte("old"), 0o640))
	s := script{Verdict: receipt("clean", over(5, "term"))}
	for _, name := range []string{filepath.Join(dir, "new.json"), old} {
		s.Options.Report = name
		if got := run(t, s, "true"); got.code != 0 {
			t.Fatalf("%s: %+v", name, got)
		}
		if rep := readReport(t, name); rep.Verdict != "clean" || len(rep.Processes) != 1 {
			t.Errorf("%s: %+v", name, rep)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2 {
		t.Errorf("left behind: %v", left)
	}
}

// An inherited descriptor is written to unchanged, after the command's output.
func TestReportToADescriptor(t *testing.T) {
	for _, name := range []string{"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"} {
		out, err := os.OpenFile(filepath.Join(t.TempDir(), "out"), os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		defer out.Close()
		s := script{}
		s.Options.Report = name
		if os.Geteuid() == 0 {
			s.Options.User = "nobody" // a user who could not open it
		}
		cmd := runCmd(t, s, "echo", "of the command")
		cmd.Stdout = out
		require.NoError(t, cmd.Run())
		b, _ := os.ReadFile(out.Name())
		if rest, ok := strings.CutPrefix(string(b), "of the command\n{"); !ok || !strings.HasSuffix(rest, "}\n") {
			t.Errorf("%s: %q", name, b)
		}
	}
}

// A file that cannot or must not be written is refused before the command runs.
func TestReportRefused(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	socket, err := net.Listen("unix", in("socket"))
	require.NoError(t, err)
	defer socket.Close()
	require.NoError(t,
		os.Mkdir(in("dir"), 0o755), unix.Mkfifo(in("fifo"), 0o666),
		os.WriteFile(in("file"), nil, 0o666), os.Symlink("file", in("link")), os.Symlink("nowhere", in("dangling")),
	)
	for name, says := range map[string]string{
		in("dir"): "is a directory", in("dir") + "/": "is a directory", in("file") + "/": "is a directory", in("dir") + "/..": "is a directory",
		in("link"): "it is a symbolic link", in("dangling"): "it is a symbolic link", in("socket"): "neither a regular file",
		in("fifo"): "nothing reads from it", in("none/r.json"): "no such file", in("file/r.json"): "not a directory",
		"/dev/fd/0": "bad file descriptor", "/dev/fd/77": "bad file descriptor", "/dev/fd/x": "bad file descriptor", "/dev/fd/-1": "bad file descriptor",
	} {
		s := script{}
		s.Options.Report = name
		got := start(t, runCmd(t, s, "echo", "never")).wait()
		if got.code != 125 || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 ||
			!strings.HasPrefix(got.stderr, "lineage: run: report "+name+": ") || !strings.Contains(got.stderr, says) {
			t.Errorf("%s: %+v, want %q", name, got, says)
		}
	}
}

// With --user the file is written with that user's rights.
func TestReportAsTheUser(t *testing.T) {
	dir := nobodys(t)
	s := script{}
	s.Options.User, s.Options.Report = "nobody", filepath.Join(dir, "r.json")
	if got := run(t, s, "true"); got.code != 0 || got.stderr != "" {
		t.Fatalf("%+v", got)
	}
	var st unix.Stat_t
	if err := unix.Stat(s.Options.Report, &st); err != nil || st.Uid != nobody || st.Gid != nobody {
		t.Errorf("%v, owner %d:%d", err, st.Uid, st.Gid)
	}

	roots := t.TempDir() // writable for root alone
	hidden := filepath.Join(roots, "hidden")
	fifo := filepath.Join(dir, "fifo") // root's, with a reader
	sticky := filepath.Join(dir, "sticky")
	require.NoError(t,
		os.Mkdir(hidden, 0o700), unix.Mkfifo(fifo, 0o600), os.Mkdir(sticky, 0o755), os.Chmod(sticky, 0o777|os.ModeSticky),
		os.WriteFile(filepath.Join(sticky, "roots"), []byte("roots"), 0o600),
	)
	reader, err := os.OpenFile(fifo, os.O_RDWR, 0)
	require.NoError(t, err)
	defer reader.Close()
	for _, name := range []string{filepath.Join(roots, "r.json"), filepath.Join(hidden, "r.json"), fifo, "/dev/mem"} {
		s.Options.Report = name
		if got := run(t, s, "echo", "never"); got.code != 125 || got.stdout != "" || !strings.Contains(got.stderr, "permission denied") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	s.Options.Report = filepath.Join(sticky, "roots")
	if got := run(t, s, "sh", "-c", "exit 4"); got.code != 125 || !strings.Contains(got.stderr, "not permitted; the exit code of sh was 4") {
		t.Errorf("%+v", got)
	}
	if b, _ := os.ReadFile(s.Options.Report); string(b) != "roots" {
		t.Errorf("root's file has %q", b)
	}
}

// The command owns the directory and changes what the name means while it runs.
func TestReportOfACommandThatInterferes(t *testing.T) {
	for _, c := range []struct {
		name, sh string
		warns    bool
		at       string // where the receipt is, from the directory; "": nowhere
	}{
		{"link", "ln -s $SECRET r.json", false, "r.json"},
		{"link in place of a file", "echo old >r.json; ln -sf $SECRET r.json", false, "r.json"},
		{"hard link to another's", "ln $SECRET r.json 2>/dev/null || :", false, "r.json"},
		{"FIFO", "mkfifo r.json", false, "r.json"},
		{"directory in place of the file", "mkdir r.json", true, ""},
		{"directory moved, a link in its place", "mv ../dir ../moved; ln -s $(dirname $SECRET) ../dir", false, "../moved/r.json"},
		{"directory removed", "rmdir ../dir", true, ""},
	} {
		for _, user := range []string{"", "nobody"} {
			t.Run(c.name+", user "+user, func(t *testing.T) {
				dir, secret := nobodys(t), secret(t)
				s := script{}
				s.Options.User, s.Options.Report = user, filepath.Join(dir, "r.json")
				args := []string{"sh", "-c", "cd " + dir + "; " + c.sh + "; exit 5"}
				if user == "" {
					args = append([]string{"setpriv", "--reuid", "65534", "--clear-groups"}, args...)
				}
				cmd := runCmd(t, s, args...)
				cmd.Env = append(cmd.Env, "SECRET="+secret)
				got := start(t, cmd).wait()
				code := 5
				if c.warns {
					code = 125
				}
				if got.code != code || (got.stderr != "") != c.warns || strings.Count(got.stderr, "\n") > 1 {
					t.Errorf("%+v", got)
				}
				if b, _ := os.ReadFile(secret); string(b) != "secret" {
					t.Errorf("root's file has %q", b)
				}
				if in, _ := os.ReadDir(filepath.Dir(secret)); len(in) != 1 {
					t.Errorf("beside root's file: %v", in)
				}
				if c.at == "" {
					return
				}
				at := filepath.Join(filepath.Dir(filepath.Join(dir, "x")), c.at)
				if fi, err := os.Lstat(at); err != nil || !fi.Mode().IsRegular() {
					t.Fatalf("%v, %v", fi, err)
				}
				readReport(t, at)
			})
		}
	}
}

func TestReportToAFIFO(t *testing.T) {
	s := script{Verdict: receipt("clean")}
	for i := range 400 {
		s.Verdict.Processes = append(s.Verdict.Processes, over(i+2, "term", "sleep"))
	}
	s.Options.Quiet = true
	s.Options.Report = filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(s.Options.Report, 0o600))
	open := func(t *testing.T) *os.File {
		f, err := os.OpenFile(s.Options.Report, os.O_RDONLY|unix.O_NONBLOCK, 0)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		// Smaller than a receipt.
		c, _ := f.SyscallConn()
		c.Control(func(fd uintptr) { _, err = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 4096) })
		require.NoError(t, err)
		return f
	}
	t.Run("read", func(t *testing.T) {
		f := open(t)
		p := start(t, runCmd(t, s, "sh", "-c", "exit 3"))
		require.Eventually(t, "something is to be read", func() bool { return unread(t, f) > 0 })
		f.SetReadDeadline(time.Now().Add(deadline))
		if b, err := io.ReadAll(f); err != nil || !strings.HasSuffix(string(b), "}\n") {
			t.Errorf("%v: %q", err, b)
		}
		if got := p.wait(); got.code != 3 || got.stderr != "" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("not read", func(t *testing.T) {
		open(t)
		s.Waits = 200 * time.Millisecond
		got := start(t, runCmd(t, s, "sh", "-c", "exit 3")).wait()
		if got.code != 125 || got.stderr != "lineage: run: report "+s.Options.Report+": not written within 200ms; the exit code of sh was 3\n" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("not read, called off", func(t *testing.T) {
		f := open(t)
		p := start(t, runCmd(t, s, "sh", "-c", "exit 3"))
		require.Eventually(t, "the FIFO is full", func() bool { return unread(t, f) == 4096 })
		p.signal(unix.SIGTERM)
		p.signal(unix.SIGINT)
		if got := p.wait(); got.code != 125 || !strings.Contains(got.stderr, ": not written: ") {
			t.Errorf("%+v", got)
		}
	})
}

func unread(t *testing.T, f *os.File) (n int) {
	t.Helper()
	c, err := f.SyscallConn()
	if err == nil {
		err = c.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	require.NoError(t, err)
	return n
}

// A member of our uid takes away our right to write files. The missing receipt is a failure
// of ours, and the file that was there stays.
func TestReportWithoutTheRight(t *testing.T) {
	for limit, says := range map[string]string{"--fsize=0:0": "write r.json: file too large", "--nofile=0:0": "too many open files"} {
		s := script{}
		s.Options.Report = filepath.Join(t.TempDir(), "r.json")
		require.NoError(t, os.WriteFile(s.Options.Report, []byte("old"), 0o600))
		got := run(t, s, "sh", "-c", "prlimit --pid $PPID "+limit+"; exit 3")
		want := "lineage: run: report " + s.Options.Report + ": " + says + "; the exit code of sh was 3"
		line, rest, _ := strings.Cut(got.stderr, "\n")
		covered := testing.CoverMode() != "" // then run cannot write its coverage either, and says so
		if got.code != 125 || line != want || (rest != "" && !covered) {
			t.Errorf("%s: %+v, want %q", limit, got, want)
		}
		if b, _ := os.ReadFile(s.Options.Report); string(b) != "old" {
			t.Errorf("%s: the file has %q", limit, b)
		}
		if all, _ := os.ReadDir(filepath.Dir(s.Options.Report)); len(all) != 1 {
			t.Errorf("%s: beside it: %v", limit, all)
		}
	}
}
