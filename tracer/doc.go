// Package tracer is the Go interface to the kernel side: it probes what this kernel can
// do, loads and attaches the programs of package bpf, pins them so that they outlive
// the process, decodes their events, takes snapshots and runs the session verbs.
//
// It knows nothing of policy, of JSON or of callers. Linux only; minimum kernel 5.10
// with BTF, see [Features] for what needs more.
package tracer
