// Package secrets hides secrets in arguments as the history does, in what the programs
// write for others to read.
package secrets

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/redact"
)

// Known hides the secrets that are known as such without a policy.
func Known(argv []string) []string { return redact.Argv(argv) }

// Expressions are those of the daemon's policy, for redact.Argv. Without them nothing may be
// shown: an error says why they are not known.
func Expressions(ctx context.Context, c api.Client) (own []*regexp.Regexp, err error) {
	p, err := c.Policy(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot read which secrets the policy hides: %w", err)
	}
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
	return own, nil
}

// Redactor gives what hides secrets in arguments as the daemon's history does it. It is nil
// with an error, if the expressions of the policy are not known.
func Redactor(ctx context.Context, c api.Client) (func(argv []string) []string, error) {
	own, err := Expressions(ctx, c)
	if err != nil {
		return nil, err
	}
	return redact.Remembering(func(argv []string) []string { return redact.Argv(argv, own...) }), nil
}
