// Package query asks one daemon for what a command shows: lists, trees, history, what a process, a port or a file belongs
// to, and whether history and audit log are whole. About processes in no session it reads /proc, with the caller's rights.
package query

import (
	"context"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

type Asker func(context.Context, api.Client) (*text.Listing, error)
