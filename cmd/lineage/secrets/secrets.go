// Package secrets hides secrets in arguments as the history does, in what this command
// writes for others to read.
package secrets

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/redact"
)

// maxCommands bounds the command lines whose redaction is remembered: most come again.
const maxCommands = 1024

// Known hides the secrets that are known as such without a policy.
func Known(argv []string) []string { return redact.Argv(argv) }

// Redactor gives what hides secrets in arguments as the daemon's history does it. It is nil
// with an error, if the expressions of the policy are not known.
func Redactor(ctx context.Context, c api.Client) (func(argv []string) []string, error) {
	p, err := c.Policy(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot read which secrets the policy hides: %w", err)
	}
	var own []*regexp.Regexp
	for _, v := range p.Items {
		text, ok := v.Value.(string)
		if !ok || !strings.HasPrefix(v.Key, "redact.") {
			continue
		}
		re, err := regexp.Compile(text)
		if err != nil {
			return nil, fmt.Errorf("cannot read which secrets the policy hides: %s: %w", v.Key, err)
		}
		own = append(own, re)
	}
	hidden := make(map[string][]string)
	return func(argv []string) []string {
		key := strings.Join(argv, "\x00")
		if known, ok := hidden[key]; ok {
			return known
		}
		if len(hidden) >= maxCommands {
			clear(hidden)
		}
		hidden[key] = slices.Clone(redact.Argv(argv, own...))
		return hidden[key]
	}, nil
}
