//go:build linux

package recipes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// typed begins the line before what a command shows.
const typed = "\x01typed: "

// TestTutorial types the commands of docs/TUTORIAL.md, from the third step on, as a
// reader would: the daemon runs, the question of "end" is answered, and "top" is skipped.
func TestTutorial(t *testing.T) {
	text := require.ReadFile(t, filepath.Join(repository, "docs/TUTORIAL.md"))
	_, port, _ := strings.Cut(stage.FreeAddr(t), ":")

	var script strings.Builder
	for _, block := range regexp.MustCompile("(?ms)^```\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			if strings.HasPrefix(line, "sudo ") || strings.HasPrefix(line, "make ") || line == "bin/lineage top\n" {
				continue
			}
			if strings.HasPrefix(line, "bin/") || strings.HasPrefix(line, "ps ") {
				script.WriteString("echo '" + typed + strings.ReplaceAll(strings.TrimSpace(line), "'", "") + "'\n")
			}
			script.WriteString(line)
		}
		if strings.Contains(block[1], "run --name agent") {
			script.WriteString("until bin/lineage why :8123 >/dev/null 2>&1 && bin/lineage tree agent | grep -q ' orphan'; do sleep 0.1; done\n")
		}
	}
	k := newKitchen(t)
	limit := fmt.Sprint((2 * stage.Patience).Seconds())
	cmd := exec.Command("timeout", "-k", "1", limit, "bash", "-c",
		strings.NewReplacer("lineage end agent", "lineage end --yes agent", "8123", port).Replace(script.String()))
	cmd.Dir, cmd.Env = k.Dir, append(os.Environ(), "LINEAGE_SOCKET="+k.Socket)
	p := stage.Start(t, cmd).Wait()
	if p.Code() != 0 {
		t.Errorf("%v", p)
	}
	shown := make(map[string]string) // by command
	for _, part := range strings.Split(p.Out.String(), typed)[1:] {
		command, out, _ := strings.Cut(part, "\n")
		shown[command] = out
	}
	server := `http\.server ` + port + ` --bind 127\.0\.0\.1`
	holds, freed := `holds tcp 127\.0\.0\.1:`+port, `freed tcp 127\.0\.0\.1:`+port
	ended := `(?s)bash agent\.sh +killed by SIG.*bash agent\.sh +exited 0.*` + server + ` +killed by SIG`
	for command, want := range map[string][]string{
		`ps -o pid,ppid,args -p "$(pgrep -d, -f http.server ` + port + `)"`: {`python3 -m ` + server},
		"bin/lineage why :" + port:        {"session agent ", `bash agent\.sh +root`, server + " +fork", holds},
		"bin/lineage ls":                  {"agent +active"},
		"bin/lineage tree agent":          {`bash agent\.sh`, server + ".*orphan"},
		"bin/lineage end --dry-run agent": {"would get SIGTERM", holds},
		"bin/lineage end --yes agent":     {"ended, clean", freed},
		"bin/lineage history":             {"agent .* end +clean"},
		"bin/lineage history agent":       {"ended, clean", freed, ended},
		"bin/lineage history agent --all": {"ended, clean", freed, ended},
		"bin/lineage run --name build -- bash -c (setsid sleep 300 &); sleep 1; echo built; exit 3": {"built\n3\n"},
	} {
		out, ok := shown[command]
		if !ok {
			t.Errorf("%q was not typed: %v", command, p)
		}
		for _, w := range want {
			if !regexp.MustCompile(w).MatchString(out) {
				t.Errorf("%s: no %q in %q; whole: %v", command, w, out, p)
			}
		}
	}
	if !regexp.MustCompile(`(?m)sleep 300.*  SIGTERM$`).MatchString(p.Err.String()) { // on a busy machine bash ends before the sleep's exec
		t.Errorf("the leftover is not named: %v", p)
	}
}

// TestQuickStart runs the second block of README.md as pasted, but for "top" and the question of "end".
func TestQuickStart(t *testing.T) {
	blocks := strings.Split(string(require.ReadFile(t, filepath.Join(repository, "README.md"))), "\n```\n")
	_, port, _ := strings.Cut(stage.FreeAddr(t), ":")
	k := newKitchen(t)
	cmd := exec.Command("bash", "-c", strings.NewReplacer("8123", port, "bin/lineage top ", ": ", "end demo", "end --yes demo",
		"sleep 3 ", "until bin/lineage why :"+port+" >/dev/null 2>&1; do sleep 0.1; done ").Replace(blocks[3]))
	cmd.Dir, cmd.Env = k.Dir, append(os.Environ(), "LINEAGE_SOCKET="+k.Socket)
	p := stage.Start(t, cmd).Wait()
	for _, want := range []string{"session demo ", "ended, clean", "freed tcp 127.0.0.1:" + port} {
		require.Contains(t, p.Out.String(), want)
	}
}

// TestBlocks: a test runs each block of these pages, or the page says why none does here. Policies are right.
func TestBlocks(t *testing.T) {
	k := newKitchen(t)
	for page, run := range map[string]bool{"README.md": true, "docs/TUTORIAL.md": true, "docs/HOWTO.md": true, "docs/AGENTS.md": false, "docs/CONTAINERS.md": false} {
		text := string(require.ReadFile(t, filepath.Join(repository, page)))
		for _, block := range regexp.MustCompile("(?ms)^([^\n]*)\n```(\\w*)\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
			policy := "version: 1\n" + block[3]
			if strings.HasPrefix(block[3], " ") { // further rules
				policy = "version: 1\ncontainers:\n" + block[3]
			}
			switch {
			case strings.HasPrefix(block[1], "<!-- recipe: "), strings.HasPrefix(block[1], "<!-- not run here: "), run && block[2] == "":
			case block[2] != "yaml":
				t.Errorf("%s: nothing runs %q", page, block[3])
			default:
				if p := k.Lineage("policy", "check", k.file("policy.yaml", policy)); p.Code() != 0 {
					t.Errorf("%s: %s: %v", page, policy, p)
				}
			}
		}
	}
}

// TestHowto runs the lines of docs/HOWTO.md, each block with a session of its own that listens and has a file open.
func TestHowto(t *testing.T) {
	k := newKitchen(t, "claude", "codex", "server")
	n, old := 0, ""
	for _, block := range regexp.MustCompile("(?ms)^(<!-- not run here: [^\n]*\n)?```\\w*\n(.*?)^```$").FindAllStringSubmatch(string(require.ReadFile(t, filepath.Join(repository, "docs/HOWTO.md"))), -1) {
		lines := regexp.MustCompile(`(?m)^(?:sudo )?(lineage .*?)(?: +#.*)?$`).FindAllStringSubmatch(block[2], -1)
		if len(lines) == 0 || block[1] != "" {
			continue
		}
		name, addr := fmt.Sprint("howto-", n), stage.FreeAddr(t)
		run := k.start(nil, "env", "lineage", "run", "-q", "--name", name, "--", "bash", "-c", `exec 8>index.lock 9>"$LNGTEST_MARKER"; perl -MIO::Socket -e "IO::Socket::INET->new(Listen => 1, LocalAddr => q(`+addr+`)) and sleep"; :`)
		_, port, _ := strings.Cut(addr, ":")
		k.Until("the server listens", func() bool { return k.Lineage("why", ":"+port).Code() == 0 })
		server := k.Session(name).Root.Ref
		for _, node := range stage.NodesOf(k.Tree(name)) {
			if node.Process.Comm == "perl" {
				server = node.Process.Ref
			}
		}
		stranger := k.start(nil, "sleep", "300")
		for _, line := range lines {
			command := strings.NewReplacer("adopt PID", fmt.Sprint("adopt ", stranger.Process.Pid), "history SESSION", "history "+old, "history build", "history "+old, "wait SESSION", "wait "+old,
				"SESSION", name, "PID@START", server.String(), "PID", fmt.Sprint(server.PID), "4711", fmt.Sprint(server.PID), ":8123", ":"+port, ".git/", "", "lineage end", "lineage end --yes", "./server", "server").Replace(line[1])
			if p := k.start([]string{"LNGTEST_CODE=0"}, "sh", "-c", command).Wait(); p.Code() != 0 {
				t.Errorf("%s: %v", line[1], p)
			}
			n++
		}
		k.Lineage("end", "--yes", "--all")
		k.Lineage("end", "--yes", "preview") // which was kept
		run.Wait()
		stranger.Stop()
		old = name
	}
	if n < 20 {
		t.Errorf("%d lines", n)
	}
}
