package display

import (
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// Caller says who asked for something.
func Caller(c *api.Caller) string {
	by := fmt.Sprintf("uid %d, pid %d %s", c.UID, c.PID, Text(c.Comm))
	if c.Command != "" {
		by = fmt.Sprintf("%s in signed command %.8s, sent by %s",
			Text(strings.Join(c.Operators, " and ")), Text(c.Command), by)
	}
	if c.Reason != "" {
		by += ": " + Text(c.Reason)
	}
	return by
}
