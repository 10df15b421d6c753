// Package urgent makes every thread of `lineage end` a real-time thread (SCHED_RR,
// priority 1), so that the command gets CPU time in a fork storm. Each sid is its own
// scheduling group (sched(7), autogroup) and gets as much of a CPU as the group of the
// shell in which the command is typed. Go's runtime passes work between threads at
// least five times before main, and among 300 groups each time costs a turn of all of
// them.
//
// So the change must come before the runtime: lineage_start is the entry point of the
// binary (-ldflags '-E lineage_start'), checks the arguments, and continues with
// the runtime's own entry point. Threads inherit the policy. Without root, or in a
// binary that was linked without the flag, nothing changes.
//
// In the same way it makes `lineage run` and its shim undumpable: the runtime needs
// milliseconds until main, enough for a process of the same user that waits to attach. A
// word `run` anywhere in the arguments counts, because flags may precede the command; for
// another command it changes nothing but the core dump.
//
// And it notes what the runtime changes, and a command that run starts must find unchanged:
// which of the standard descriptors are closed, and which signals are ignored or blocked.
package urgent
