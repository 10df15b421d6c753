//go:build linux

package procfs

// OfHost reports whether a process is root's, in the same user and PID namespaces as self.
func (fs FS) OfHost(pid, self uint32) bool {
	st, err := fs.Status(pid)
	if err != nil || !Ours(st.UIDs[0]) { // atd has the others of a user without rights, between jobs
		return false
	}
	for _, namespace := range []string{"ns/user", "ns/pid"} {
		if fs.Link(pid, namespace) != fs.Link(self, namespace) {
			return false
		}
	}
	return true
}
