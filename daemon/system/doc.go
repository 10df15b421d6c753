// Package system is what a daemon needs of its host: its instance, privileges, files, log, CPU time and metrics.
//
// An instance is what the path of a socket names: the pins, the files and the lock of one daemon, how it is started,
// found, and replaced by the next one.
//
// A daemon gives up the privileges that it no longer needs, in all its threads and permanently. It keeps a few
// capabilities, and uid 0: pins, the socket's directory, the audit log and the history belong to root, and a process
// that is not root would need CAP_DAC_OVERRIDE for them, which gives more than root's own files.
//
// Its files are opened in directories where another user may have made something else in their place. Its log bounds
// its lines. Background work has a bounded share of a CPU, counted as CPU time: on a loaded host, work that waits for a
// CPU is not done less often. Prometheus gets one table of metrics, read from one snapshot; no label ever names a
// process, a session or a user.
package system
