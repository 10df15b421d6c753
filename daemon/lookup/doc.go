// Package lookup finds the session or the process that a caller names, decides whether the caller may read it, and
// describes it from the graph, the kernel and procfs.
//
// It also names the container that a process runs in, from its cgroup and from the records of the container's runtime,
// reads the command lines that no exec event reported, and finds out from what /proc shows of a process, and from what
// a member of a session ran, whether work was handed to another daemon for that session. The last is pure: it reads no
// files, keeps no environment and decides nothing.
package lookup
