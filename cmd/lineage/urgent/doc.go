// Package urgent lets `lineage end` come before what it is to end. A process that
// forks into POSIX sessions of its own makes one scheduling group of each
// (sched(7), autogroup), and each is worth as much as the group of the shell that
// the command is typed in: among 300 of them the start of a program of this size
// takes a second. Real-time threads come before all groups. The command does little
// and waits for most of its time. It takes root; without it nothing is changed.
//
// The work is done while the packages of the program are initialised, as early as
// the imports of this one allow: most of what a start costs comes behind it.
package urgent
