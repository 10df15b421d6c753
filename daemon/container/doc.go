// Package container names the container that a process runs in, from its cgroup and from the records of the
// container's runtime, and reads the command lines that no exec event reported.
package container
