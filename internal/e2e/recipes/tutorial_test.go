//go:build linux

package recipes

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// TestTutorial types the commands of docs/TUTORIAL.md, from the third step on, as a
// reader would: the daemon runs, the question of "end" is answered, and "top" is skipped.
func TestTutorial(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "docs/TUTORIAL.md"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().String()[len("127.0.0.1:"):]
	l.Close()

	var script strings.Builder
	for _, block := range regexp.MustCompile("(?ms)^```\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			if !strings.HasPrefix(line, "sudo ") && !strings.HasPrefix(line, "make ") && line != "bin/lineage top\n" {
				script.WriteString(line)
			}
		}
		if strings.Contains(block[1], "run --name agent") {
			script.WriteString("until bin/lineage why :8123 >/dev/null 2>&1; do sleep 0.1; done\n")
		}
	}
	typed := strings.ReplaceAll(script.String(), "lineage end agent", "lineage end --yes agent")
	k := newKitchen(t)
	cmd := exec.Command("timeout", "-k", "1", "60", "bash", "-c", strings.ReplaceAll(typed, "8123", port))
	cmd.Dir, cmd.Env = k.Dir, append(os.Environ(), "LINEAGE_SOCKET="+k.Socket)
	p := stage.Start(t, cmd).Wait()
	if p.Code() != 0 {
		t.Errorf("%v", p)
	}
	rest := p.Out.String()
	for _, want := range []string{
		"http.server " + port, "agent", "holds tcp 127.0.0.1:" + port, "/bin/bash ./agent.sh", "orphan", // ps, why, ls and tree
		"would get SIGTERM", "holds tcp 127.0.0.1:" + port, "ended, clean", "freed tcp 127.0.0.1:" + port, // end
		"end", "clean", "freed tcp 127.0.0.1:" + port, // history
		"built\n3\n",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("no %q in %q; whole: %v", want, rest, p)
		}
		rest = after
	}
	if !regexp.MustCompile(`(?m)sleep 300.*  SIGTERM$`).MatchString(p.Err.String()) { // on a busy machine bash ends before the sleep's exec
		t.Errorf("the leftover is not named: %v", p)
	}
}
