// Package query asks one daemon for what a command shows: lists, trees, ended sessions, what a process, a port or a file
// belongs to, and whether the receipts of the history and the audit log are whole. It reads from /proc, with the rights of the caller,
// about processes that are in no session.
package query

import (
	"context"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// Asker asks the daemon one question.
type Asker func(context.Context, api.Client) (*text.Listing, error)
