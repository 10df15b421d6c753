// Package broker finds out from what /proc shows of a process, and from what a
// member of a session ran, whether work was handed to another daemon for that
// session. It is pure: it reads no files, keeps no environment and decides
// nothing.
package broker
