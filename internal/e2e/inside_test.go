//go:build linux

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// inside is what an agent does from inside its session, of which it is the root: each
// line of its standard input is a request, "METHOD PATH BODY", and gets a line with the
// status; "give PATH" passes the connection to the process that listens there.
func inside(socket string) int {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
		if err != nil {
			fmt.Println(err)
			continue
		}
		if word == "give" {
			fmt.Println(pass(c, rest))
			c.Close()
			continue
		}
		path, body, _ := strings.Cut(rest, " ")
		fmt.Println(ask(c, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", word, path, len(body), body)))
		c.Close()
	}
	return 0
}

// ask sends bytes and returns status and body, in one line.
func ask(c net.Conn, request string) string {
	go io.WriteString(c, request)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "closed"
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSpace(string(b)))
}

// pass sends a connection to the process that listens at path, and returns what comes back on it.
func pass(c *net.UnixConn, path string) string {
	to, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err.Error()
	}
	defer to.Close()
	f, err := c.File()
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if _, _, err := to.WriteMsgUnix([]byte{0}, unix.UnixRights(int(f.Fd())), nil); err != nil {
		return err.Error()
	}
	answer, err := io.ReadAll(to)
	if err != nil {
		return err.Error()
	}
	return string(answer)
}

// taken sends one request over each connection that it receives at path, as this test:
// outside every session, and root.
func taken(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o666))
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.AcceptUnix()
			if err != nil {
				return
			}
			oob := make([]byte, 64)
			_, n, _, _, err := from.ReadMsgUnix(make([]byte, 1), oob)
			answer := fmt.Sprint(err)
			if cmsgs, err := unix.ParseSocketControlMessage(oob[:n]); err == nil && len(cmsgs) == 1 {
				if fds, err := unix.ParseUnixRights(&cmsgs[0]); err == nil && len(fds) == 1 {
					f := os.NewFile(uintptr(fds[0]), "given")
					if c, err := net.FileConn(f); err == nil {
						answer = ask(c, "GET /v1/policy HTTP/1.1\r\nHost: x\r\n\r\n")
						c.Close()
					}
					f.Close()
				}
			}
			io.WriteString(from, answer)
			from.Close()
		}
	}()
}

// TestFromInside: an agent of the operator's own uid, or root, can read its own session
// and nothing else; it ends and keeps nothing, and changes nothing.
func TestFromInside(t *testing.T) {
	for _, who := range []string{"root", "nobody", "setuid"} {
		t.Run(who, func(t *testing.T) {
			i := stage.NewDaemon(t)
			m := stage.NewMarker(t, i.Dir)
			other := i.Run(m, []string{"--name", "other", "--grace", "0s"}, "daemonise", "stay")
			m.Ready()
			theirs := i.Session("other")

			requests, answers := startInside(i, who)
			send := func(line string) string {
				t.Helper()
				fmt.Fprintln(requests, line)
				if !answers.Scan() {
					t.Fatalf("%s: no answer", line)
				}
				return answers.Text()
			}
			mine := i.Session("mine")
			process := func(s api.Session, signal string) string {
				return fmt.Sprintf(`POST /v1/processes/%v/kill {"signal":%q}`, s.Root.Ref, signal)
			}
			for line, want := range map[string]string{
				"GET /v1/sessions/mine/tree":               "200",
				"GET /v1/sessions/" + theirs.ID + "/tree":  "404",
				"POST /v1/sessions/mine/end":               "403",
				"POST /v1/sessions/" + theirs.ID + "/end":  "404",
				process(mine, "KILL"):                      "403",
				process(theirs, "KILL"):                    "403",
				"GET /v1/policy":                           "403",
				"POST /v1/sessions {\"root\":{\"pid\":1}}": "40", // some kernels hide it: 404
			} {
				if got := send(line); !strings.HasPrefix(got, want) {
					t.Errorf("%s: %.200s, want %s", line, got, want)
				}
			}
			if got := send("GET /v1/sessions?state=all"); !strings.Contains(got, mine.ID) || strings.Contains(got, theirs.ID) {
				t.Errorf("sessions: %.300s", got)
			}
			// A connection counts as that of the member that connected, whichever process has it now.
			given := filepath.Join(i.Dir, "given")
			taken(t, given)
			if got := send("give " + given); !strings.HasPrefix(got, "403") {
				t.Errorf("over a member's connection in other hands: %.200s", got)
			}
			if s := i.Session("mine"); s.State != "active" {
				t.Errorf("%+v", s)
			}
			if s := i.Session("other"); s.State != "active" || s.Live != theirs.Live {
				t.Errorf("%+v", s)
			}
			i.End("mine")
			i.Finish(m, other, "other")
			requests.Close()
		})
	}
}

// startInside runs the agent as the root of a session of its own. An agent that does
// not answer yet does so at the first request.
func startInside(i *stage.Instance, who string) (requests *os.File, answers *bufio.Scanner) {
	i.T.Helper()
	in, requests, err := os.Pipe()
	require.NoError(i.T, err)
	out, w, err := os.Pipe()
	require.NoError(i.T, err)
	i.T.Cleanup(func() { requests.Close(); out.Close() })
	self := i.Copy(os.Args[0])
	args := []string{"run", "--name", "mine", "--grace", "0s", "--", self, "lngtest-inside", i.Socket}
	cmd := i.Command(args, nil)
	if who == "setuid" {
		require.NoError(i.T, os.Chmod(self, 0o755|os.ModeSetuid))
	}
	if who != "root" {
		cmd.Path = i.Copy(stage.Lineage)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stage.Nobody, Gid: stage.Nobody}}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, w, os.Stderr
	require.NoError(i.T, cmd.Start())
	i.T.Cleanup(func() {
		requests.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	in.Close()
	w.Close()
	answers = bufio.NewScanner(out)
	answers.Buffer(nil, 2<<20)
	fmt.Fprintln(requests, "GET /v1/version")
	if !answers.Scan() {
		i.T.Fatal("the agent does not answer")
	}
	return requests, answers
}
