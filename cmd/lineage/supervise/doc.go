// Package supervise is `lineage run`: it starts a command as the root of a new
// session, stands in for it in front of the shell that started run, and tells
// what was left over when it exited.
//
// A command must be a member before its first instruction, and only a live
// process can be entered. So run starts itself as a shim that blocks on a
// pipe, has the daemon enter the shim, and then lets it exec the command.
//
// Run owns its process: it waits for all children, changes the dispositions of
// signals and may make the process a subreaper. One call, then exit.
package supervise
