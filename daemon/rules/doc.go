// Package rules is the policy in force, and what it does with sessions: agents, keep
// rules, limits, the circuit breaker.
package rules
