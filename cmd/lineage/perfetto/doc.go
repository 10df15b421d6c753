// Package perfetto writes what happened in a session as Chrome trace events, a thread for each
// process, which Perfetto and other viewers of timelines open.
//
// Each event is written at once, so that only the live members are kept in memory.
package perfetto
