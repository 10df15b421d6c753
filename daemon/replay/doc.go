// Package replay plays a recording of events back as the live view's client. It
// needs no daemon and no privilege, and builds on every OS.
package replay
