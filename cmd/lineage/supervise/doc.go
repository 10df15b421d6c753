// Package supervise is `lineage run` and `lineage init`.
//
// Run starts a command as the root of a new session, represents it to the shell that
// started run, and reports what was left over when it exited. A command must be a
// member before its first instruction, and only a live process can be entered. So run
// starts itself as a shim that blocks on a pipe, asks the daemon to enter the shim, and
// then lets it exec the command.
//
// Init does the same as PID 1 of a container, without a daemon or privilege: it starts
// the command through the same shim, reaps orphans that become its children, and
// signals what is left.
//
// Both own their process: they wait for all children, change the dispositions
// of signals and may make the process a subreaper. One call, then exit.
package supervise
