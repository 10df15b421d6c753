package document

import (
	"slices"

	"github.com/lineage-ebpf/lineage/api"
)

// ReadableProcess is a copy without the command line, if r may not read that.
func ReadableProcess(p *api.Process, r Reader) api.Process {
	d := *p
	uid := uint32(0)
	if d.UID != nil {
		uid = uint32(*d.UID)
	}
	if !r.MayReadArgv(uid) {
		d.Argv, d.ArgvTruncated = nil, false
	}
	return d
}

// ReadableBrokered is a copy without the command lines that r may not read.
func ReadableBrokered(all []api.Brokered, r Reader) []api.Brokered {
	out := slices.Clone(all)
	for i := range out {
		if asked := out[i].Asked; asked != nil && (asked.UID == nil || !r.MayReadArgv(uint32(*asked.UID))) {
			shown := *asked
			shown.Argv = nil
			out[i].Asked = &shown
		}
	}
	return out
}

// ReadableReport is the receipt of a session of uid as r may read it.
func ReadableReport(d *api.Report, uid uint32, r Reader) *api.Report {
	shown := *d
	shown.Brokered = ReadableBrokered(d.Brokered, r)
	if !r.MayReadArgv(uid) {
		shown.Processes = slices.Clone(d.Processes)
		for i := range shown.Processes {
			shown.Processes[i].Argv = nil
		}
	}
	return &shown
}

// Redacted is a copy of outcomes without secrets.
func Redacted(outcomes []api.Outcome, redact func([]string) []string) []api.Outcome {
	out := append([]api.Outcome{}, outcomes...)
	for i := range out {
		out[i].Argv = redact(out[i].Argv)
	}
	return out
}
