//go:build !linux

package urgent

// Relax does nothing: only on Linux is a thread made a real-time thread.
func Relax() {}
