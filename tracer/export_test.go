//go:build linux

package tracer

import (
	"github.com/cilium/ebpf"
	"github.com/lineage-ebpf/lineage/bpf"
)

// VerifierStats has the kernel say what it verified of the programs that are
// loaded until the returned function is called.
func VerifierStats() (back func()) {
	before := collection
	collection.Programs.LogLevel = ebpf.LogLevelStats
	return func() { collection = before }
}

// VerifierLogs are the verifier's words on each program that this tracer loaded.
func (t *Tracer) VerifierLogs() map[string]string {
	logs := map[string]string{}
	for name, p := range t.programs {
		logs[name] = p.VerifierLog
	}
	return logs
}

// Condemn is End with grace 0 that carries nothing out. Below level 3 its members
// live on.
func (t *Tracer) Condemn(id SessionID) error {
	return t.onSession(bpf.LineageProgVerbEnd, "condemn", &bpf.LineageVerbArgs{Session: uint64(id), Cause: uint32(CauseEnd)})
}
