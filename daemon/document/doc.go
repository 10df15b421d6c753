// Package document makes the api's documents of graph nodes, events and session
// records, as one reader may read them. It is pure: everything that it needs of the
// daemon comes as a value. The only question that it asks is which process has a PID
// now, to say whether a creator outside the graph is alive.
package document
