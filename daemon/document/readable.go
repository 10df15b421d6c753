package document

import (
	"slices"

	"github.com/lineage-ebpf/lineage/api"
)

// ReadableProcess is a copy with the command line as r gets it.
func ReadableProcess(p *api.Process, r Reader) api.Process {
	d := *p
	uid := uint32(0)
	if d.UID != nil {
		uid = uint32(*d.UID)
	}
	d.FirstArgv = r.Argv(uid, d.FirstArgv)
	if d.Argv = r.Argv(uid, d.Argv); d.Argv == nil {
		d.ArgvTruncated = false
	}
	return d
}

// Hiding reads all command lines, without secrets.
type Hiding func([]string) []string

// Argv implements [Reader].
func (hide Hiding) Argv(_ uint32, argv []string) []string { return hide(argv) }

// ReadableSession is a copy as r may read it.
func ReadableSession(s *api.Session, r Reader) *api.Session {
	d := *s
	if s.Root != nil {
		d.Root = new(*s.Root)
		d.Root.Argv = KnownArgv(d.Root, d.Root.Argv, r)
		d.Root.FirstArgv = KnownArgv(d.Root, d.Root.FirstArgv, r)
	}
	d.Delegated, d.Token = ReadableDelegated(d.Delegated, r), ""
	return &d
}

// KnownArgv is a command line of a process as r gets it; nil if the user of the process is
// unknown.
func KnownArgv(p *api.Process, argv []string, r Reader) []string {
	if p.UID == nil {
		return nil
	}
	return r.Argv(uint32(*p.UID), argv)
}

// ReadableDelegated is a copy with the command lines as r gets them.
func ReadableDelegated(all []api.Delegated, r Reader) []api.Delegated {
	out := slices.Clone(all)
	for i := range out {
		if p := out[i].Asked; p != nil {
			asked := *p
			asked.Argv = KnownArgv(p, p.Argv, r)
			asked.ArgvTruncated = p.ArgvTruncated && asked.Argv != nil
			out[i].Asked = &asked
		}
	}
	return out
}

// ReadableReport is the receipt of a session of uid as r may read it.
func ReadableReport(d *api.Report, uid uint32, r Reader) *api.Report {
	shown := *d
	shown.Delegated = ReadableDelegated(d.Delegated, r)
	shown.Processes = Redacted(d.Processes, func(argv []string) []string { return r.Argv(uid, argv) })
	return &shown
}

func Redacted(outcomes []api.Outcome, redact func([]string) []string) []api.Outcome {
	out := append([]api.Outcome{}, outcomes...)
	for i := range out {
		out[i].Argv = redact(out[i].Argv)
	}
	return out
}
