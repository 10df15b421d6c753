//go:build linux

package agents

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// roles are what this test binary does when an agent or a test starts it again. Each ends
// after five minutes at the latest.
var roles = map[string]func(args []string) int{"mcp": serveMCP, "helper": help, "manager": manage}

const lifetime = 5 * time.Minute

// note appends a line to the file or FIFO that the test reads.
func note(path, format string, args ...any) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, format+"\n", args...)
}

// help is a process that a server started detached: it only waits.
func help([]string) int {
	time.Sleep(lifetime) // a limit; the test ends it earlier
	return 0
}

// serveMCP is an MCP server on stdio with one tool, "ping". Like many real servers, it
// ends neither when its input ends nor on SIGTERM, unless it is to be polite.
func serveMCP(args []string) int {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE)
	time.AfterFunc(lifetime, func() { os.Exit(0) })
	note(args[0], "mcp %d", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				ProtocolVersion string `json:"protocolVersion"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		result := map[string]any{}
		switch m.Method {
		case "initialize":
			result = map[string]any{"protocolVersion": m.Params.ProtocolVersion, "capabilities": map[string]any{"tools": map[string]any{}},
				"serverInfo": map[string]any{"name": "lngtest", "version": "1"}}
		case "tools/list":
			result["tools"] = []any{map[string]any{"name": "ping", "description": "answers", "inputSchema": map[string]any{"type": "object"}}}
		case "tools/call":
			result["content"] = []any{map[string]any{"type": "text", "text": "pong"}}
		}
		b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
		if err != nil {
			return 1
		}
		fmt.Printf("%s\n", b)
	}
	if len(args) == 1 {
		select {} // its client is gone
	}
	return 0
}

// manage is a manager of a user's processes, as "systemd --user" is: orphans become its
// children, and it outlives the terminal. It ends with the last of them.
func manage(args []string) int {
	signal.Ignore(unix.SIGHUP)
	time.AfterFunc(lifetime, func() { os.Exit(1) })
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 1
	}
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); err == unix.ECHILD {
			return 0
		}
	}
}
