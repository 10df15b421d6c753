// Package document makes the api's documents from graph nodes, events and session
// records, as one reader may read them. It is pure: everything that it needs of the
// daemon comes as a value. It asks only one question: which process has a PID now, to
// decide whether a creator outside the graph is alive.
package document
