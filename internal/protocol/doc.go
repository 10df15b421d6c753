// Package protocol is the protocol of the kernel side as a machine of small steps, for a search of all
// interleavings. It is pure: no clock, no I/O. Each step is what one CPU does to shared
// memory before another CPU can intervene; its comment names the function in bpf/*.h that it stands
// for. Each invariant names the sentence of docs/DESIGN.md that it checks.
//
// A [Config] bounds a run: how many processes, PIDs, sessions, requests and faults there are. The tests
// visit every state that such a run can reach. A [Switch] takes one precaution away, and the search
// then has to find what it is for. A [Host] is the machine without interleavings.
//
// # What is left out
//
// A step is larger than one access of memory in seven places. Counts of all sessions of a chain change
// in one step. A chain's states are read in one step. A pass judges, and signals, a member in one step.
// Creating a record, until it is nested, is one step, with the entry of its owner, and so is copying all records
// in a take-over. An adoption enters an outsider in one step. Threads, /proc, the daemon's graph, deadlines
// and delegated work do not exist. One session has a limit of processes, and all its dead are checked in one step.
// A
// process that takes a PID waits for the program that deletes the entry before it as long as that takes. A halt's agents are those whose rule needs nothing but the name. In bpf/ an exec also reads the flag before it opens a
// session, and an agent that is its session's root ends that by its exit.
// A stop of another signal that comes while a program stops or continues the task counts as ours.
// Memory is sequentially consistent: every access that the programs order is a full barrier there. Levels below 3 have the arbiter of level 4, not that of claims.h.
package protocol
