// Package urgent makes every thread of `lineage end` a real-time one (SCHED_RR,
// priority 1), so that the command gets its turn in a storm of forks. A process
// that leads a POSIX session is a scheduling group of its own (sched(7),
// autogroup) and gets as much of a CPU as the group of the shell that the command
// is typed in. Go's runtime passes work between threads five times and more
// before main, and among 300 groups each time costs a turn of all of them.
//
// So the change has to come before the runtime: lineage_start is the entry point
// of the binary (-ldflags '-E lineage_start'), looks at the first argument, and
// goes on to the runtime's own. Threads inherit the policy. Without root, or in a
// binary that was linked without the flag, nothing changes.
package urgent
