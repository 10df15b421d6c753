// Package query asks one daemon for what a command shows: lists, trees, ended sessions, and
// what a process, a port or a file belongs to.
package query

import (
	"context"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// Asker asks the daemon one question.
type Asker func(context.Context, api.Client) (*text.Listing, error)
