// Package document makes the api's documents of graph nodes, events and session
// records, as one reader may read them. It is pure: what it needs of the daemon comes
// as values, and of the kernel it asks only whether a process outside the graph lives.
package document
