// Package run starts commands as os/exec does, and ends everything that they
// started.
//
//	cmd := run.CommandContext(ctx, "claude", "-p", "run the tests")
//	cmd.Stdout = os.Stdout
//	err := cmd.Run() // returns when every process that claude started is gone
//
// A [Cmd] has the fields and the methods of an [exec.Cmd]. What differs:
//
//   - Wait returns when the command has exited and nothing that it started is
//     alive. A grandchild that holds a pipe cannot delay it.
//   - When the context is done, the whole session ends: SIGTERM, and SIGKILL
//     when Grace is over. os/exec kills one process.
//   - Report says how every process ended.
//
// With a daemon the command is the root of a session; without one "lineage init"
// ends the descendants. [Cmd.Guarantee] says which after Start; [Cmd.Require] makes
// Start fail on a host that offers less.
//
// The package needs the lineage program, and nothing but the standard library
// and package api. It is for Linux.
package run
