// Package marks records what members report about themselves: the tool calls of an agent, which its
// hooks report, and its place in a distributed trace, which a child of the agent has in TRACEPARENT.
// All of it is a claim: it is kept with the processes that it is about, and decides nothing.
package marks
