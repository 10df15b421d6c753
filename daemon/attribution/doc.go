// Package attribution finds the work that members hand to other daemons, and the evidence for it, and records what
// members report about themselves.
//
// Members report the tool calls of an agent, by its hooks, and its place in a distributed trace, which a child of the
// agent has in TRACEPARENT. All of it is a claim: it is kept with the processes that it is about, and decides nothing.
package attribution
