package api

import (
	"context"
	"net/http"
	"time"
)

// Policy is GET /v1/policy: the effective values, and where each came from.
type Policy struct {
	Head
	File    string        `json:"file,omitempty"`   // absent: there is none
	Mode    string        `json:"mode"`             // in force; observe for users whose breaker is open
	Loaded  *time.Time    `json:"loaded,omitempty"` // when the file was read
	Items   []PolicyValue `json:"items"`            // every effective value
	Breaker Breaker       `json:"breaker"`          // the circuit breaker
	// Refused is why the present file was rejected; the values are the previous
	// ones.
	Refused string `json:"refused,omitempty"`
	// NeedsRestart names the keys that are read at start only and have changed
	// since.
	NeedsRestart []string `json:"needs_restart,omitempty"`
}

// PolicyValue is one effective value.
type PolicyValue struct {
	Kind   string `json:"kind,omitempty"` // policy_value
	Key    string `json:"key"`            // defaults.grace, protect.NAME, redact.N
	Value  any    `json:"value"`          // text, number, list or object
	Origin string `json:"origin"`         // FILE:LINE or built-in
}

// PolicyExplain is GET /v1/policy/explain: the rules that match a process now.
type PolicyExplain struct {
	Head
	Process Process      `json:"process"` // that was asked for
	Items   []PolicyRule `json:"items"`   // the rules that match it
}

// PolicyRule is a rule that matches, and what it does to the process.
type PolicyRule struct {
	Kind   string `json:"kind,omitempty"`   // policy_rule
	Rule   string `json:"rule"`             // protect.NAME
	Reason string `json:"reason,omitempty"` // as the rule gives it
	Origin string `json:"origin"`           // FILE:LINE or built-in
	Effect string `json:"effect"`           // what the rule does to the process
}

// Breaker is the circuit breaker over automatic ends.
type Breaker struct {
	Open bool  `json:"open"`           // for some user
	UIDs []int `json:"uids,omitempty"` // the users: none of their sessions is ended automatically
}

func (c *client) Policy(ctx context.Context) (*Policy, error) {
	return fetch[Policy](c, ctx, http.MethodGet, "/v1/policy", nil, nil)
}

func (c *client) PolicyExplain(ctx context.Context, ref string) (*PolicyExplain, error) {
	return fetch[PolicyExplain](c, ctx, http.MethodGet, "/v1/policy/explain", values("ref", ref), nil)
}

func (c *client) PolicyReload(ctx context.Context) (*Policy, error) {
	return fetch[Policy](c, ctx, http.MethodPost, "/v1/policy/reload", nil, nil)
}

func (c *client) PolicyResume(ctx context.Context) (*Policy, error) {
	return fetch[Policy](c, ctx, http.MethodPost, "/v1/policy/resume", nil, nil)
}
