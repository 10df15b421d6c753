// Package takeover reads the sessions of programs in the kernel that another version, or another configuration, has
// loaded and pinned, and BPF maps whose layout may be another version's.
package takeover
