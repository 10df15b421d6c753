//go:build linux

// Lineage-mcp is an MCP server on stdin and stdout: an agent uses it to find what it
// has left running, and to end it.
//
// It is a program of its own because the protocol's library brings an HTTP server and
// OAuth, which have no place in a binary that runs as root. It is started by the agent, so
// it is a member of the agent's session, and the daemon decides what it may do.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lineage-ebpf/lineage/api"
)

// version is set by the linker.
var version = "devel"

func main() {
	socket := flag.String("socket", cmp.Or(os.Getenv("LINEAGE_SOCKET"), api.DefaultSocket),
		"the daemon's `socket`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := newServer(newDaemon(*socket)).Run(ctx, &mcp.StdioTransport{})
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "lineage-mcp:", err)
		os.Exit(api.ExitFailed)
	}
}
