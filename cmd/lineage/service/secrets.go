package service

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/redact"
)

// SecretExpressions returns the redact expressions of the daemon's policy, for redact.Argv. If
// they are not known, the error says why, and nothing may be shown.
func SecretExpressions(ctx context.Context, c api.Client) (expressions []*regexp.Regexp, err error) {
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
		expressions = append(expressions, re)
	}
	return expressions, nil
}

// Redactor returns a function that hides secrets in arguments as the daemon's history does.
// If the policy's expressions are not known, it is nil with an error.
func Redactor(ctx context.Context, c api.Client) (func(argv []string) []string, error) {
	expressions, err := SecretExpressions(ctx, c)
	if err != nil {
		return nil, err
	}
	return redact.Remembering(func(argv []string) []string { return redact.Argv(argv, expressions...) }), nil
}

// HideSecretsIn hides secrets in the command lines of a receipt.
func HideSecretsIn(d *api.Report, redact func(argv []string) []string) {
	for i := range d.Processes {
		d.Processes[i].Argv = redact(d.Processes[i].Argv)
	}
	for i := range d.Delegated {
		if asked := d.Delegated[i].Asked; asked != nil {
			asked.Argv = redact(asked.Argv)
		}
	}
}
