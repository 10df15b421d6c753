// Package rules is the policy in force, and what it does with sessions: agents, containers, keep rules, limits, breaker.
// It also hands members over to sessions that outlive their own.
package rules
