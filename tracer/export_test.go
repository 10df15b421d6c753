//go:build linux

package tracer

import "github.com/cilium/ebpf"

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
