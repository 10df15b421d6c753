package hosts

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// Print prints the hosts' answers, and returns the exit code as an error without text.
// "Not found" on one host is an answer, not an error, unless no host has it.
func Print(c *cli.Console, format string, answers []text.HostAnswer) error {
	if err := c.Print(format, text.Hosts(answers)); err != nil {
		return err
	}
	found, failed := 0, 0
	for i := range answers {
		switch answer := &answers[i]; {
		case answer.Err == nil:
			found++
		case answer.Exit != api.ExitNotFound:
			failed++
		}
		if format == "name" && answers[i].Err != nil {
			c.Complain(fmt.Errorf("%s: %w", answers[i].Host, answers[i].Err))
		}
	}
	switch {
	case failed > 0:
		return cli.Silent(api.ExitLeft)
	case found == 0:
		return cli.Silent(api.ExitNotFound)
	}
	return nil
}
