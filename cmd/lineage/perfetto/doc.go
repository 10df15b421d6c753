// Package perfetto writes what happened in a session as a trace for Perfetto, a viewer of
// timelines: TrackEvent protobuf, one packet after the other, so that only the live
// members are kept in memory.
package perfetto
