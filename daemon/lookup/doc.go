// Package lookup finds the session or the process that a caller names, decides whether
// the caller may read it, and describes it from the graph, the kernel and procfs.
package lookup
