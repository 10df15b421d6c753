//go:build linux

package system

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"
)

// TestMain also runs this binary as a process that drops capabilities: that cannot be
// undone.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "lngtest-drop" {
		os.Exit(dropper())
	}
	os.Exit(m.Run())
}

// dropper drops capabilities while there are several threads, and prints what each of
// them, and a child, has then.
func dropper() int {
	ready, done := make(chan bool), make(chan bool)
	for range 4 {
		go func() {
			runtime.LockOSThread()
			ready <- true
			<-done
		}()
	}
	for range 4 {
		<-ready
	}
	if os.Args[2] == "without-setpcap" {
		s := cap.GetProc()
		s.SetFlag(cap.Permitted, false, cap.SETPCAP)
		s.SetFlag(cap.Effective, false, cap.SETPCAP)
		if err := s.SetProc(); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	fmt.Println("drop:", DropPrivileges(Kill, Ptrace))
	held, err := HeldCapabilities()
	fmt.Println("held:", strings.Join(held, " "), err)
	threads, _ := filepath.Glob("/proc/self/task/*/status")
	fmt.Println("threads:", len(threads) > 4)
	for _, path := range append(threads, "child") {
		if path == "child" {
			out, err := exec.Command("cat", "/proc/self/status").Output()
			if err != nil {
				fmt.Println(err)
			}
			printSets("child", string(out))
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			fmt.Println(err)
		}
		printSets("thread", string(b))
	}
	close(done)
	return 0
}

func printSets(who, status string) {
	for line := range strings.Lines(status) {
		if strings.HasPrefix(line, "Cap") || strings.HasPrefix(line, "NoNewPrivs") || strings.HasPrefix(line, "Uid") {
			fmt.Println(who, strings.Join(strings.Fields(line), " "))
		}
	}
}

// drop returns the lines that a dropping process prints, each once.
func drop(t *testing.T, how string) map[string]bool {
	t.Helper()
	require.Root(t)
	cmd := exec.Command("/proc/self/exe", "lngtest-drop", how)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := map[string]bool{}
	for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); {
		lines[s.Text()] = true
	}
	return lines
}

// mask is how procfs writes a set.
func mask(caps ...Capability) string {
	var n uint64
	for _, c := range caps {
		n |= 1 << c
	}
	return fmt.Sprintf("%016x", n)
}

func TestDrop(t *testing.T) {
	lines := drop(t, "all")
	kept, none := mask(Kill, Ptrace), mask()
	want := []string{"drop: <nil>", "held: cap_kill cap_sys_ptrace <nil>", "threads: true"}
	for _, who := range []string{"thread", "child"} {
		want = append(want,
			who+" CapInh: "+none, who+" CapPrm: "+kept, who+" CapEff: "+kept, who+" CapBnd: "+kept, who+" CapAmb: "+none,
			who+" NoNewPrivs: 1", who+" Uid: 0 0 0 0")
	}
	for _, line := range want {
		if !lines[line] {
			t.Errorf("no %q", line)
		}
		delete(lines, line)
	}
	for line := range lines {
		t.Errorf("unexpected: %s", line) // a thread that differs
	}
}

// What cannot be dropped is reported, and the rest is dropped.
func TestDropWithoutSetpcap(t *testing.T) {
	lines := drop(t, "without-setpcap")
	reported := false
	for line := range lines {
		reported = reported || strings.HasPrefix(line, "drop: take cap_") && strings.HasSuffix(line, "out of the bounding set: "+unix.EPERM.Error())
	}
	if !reported || !lines["thread CapEff: "+mask(Kill, Ptrace)] || !lines["thread NoNewPrivs: 1"] {
		t.Errorf("%v", lines)
	}
}
