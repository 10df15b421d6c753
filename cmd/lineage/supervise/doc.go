// Package supervise is `lineage run` and `lineage init`.
//
// Run starts a command as the root of a new session, stands in for it in front
// of the shell that started run, and tells what was left over when it exited.
// A command must be a member before its first instruction, and only a live
// process can be entered. So run starts itself as a shim that blocks on a
// pipe, has the daemon enter the shim, and then lets it exec the command.
//
// Init does the same for PID 1 of a container with nothing but what a process
// may do by itself: it starts the command through the same shim, reaps what is
// orphaned to it, and signals what is left.
//
// Both own their process: they wait for all children, change the dispositions
// of signals and may make the process a subreaper. One call, then exit.
package supervise
