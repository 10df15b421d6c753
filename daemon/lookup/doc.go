// Package lookup finds the session or the process that a caller names, decides whether
// the caller may know of it, and describes it by the graph, the kernel and procfs.
package lookup
