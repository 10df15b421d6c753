// Package tracer is the kernel side seen from Go: it probes what this kernel
// can do, loads and attaches the programs of package bpf, pins them so that
// they outlive the process, decodes their events, takes snapshots and speaks
// the session verbs.
//
// It knows nothing of policy, of JSON or of who asks. Linux only; minimum
// kernel 5.10 with BTF, see [Features] for what needs more.
package tracer
