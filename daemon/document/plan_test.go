package document

import (
	"testing"

	"github.com/lineage-ebpf/lineage/tracer"
)

func TestBecause(t *testing.T) {
	e := family()
	for want, p := range map[string]tracer.Process{
		"root":                  {Evidence: tracer.EvidenceRoot, Creator: id(9)},
		"root (socket), weak":   {Evidence: tracer.EvidenceRoot, Source: tracer.SourceSocket},
		"adopted (env), strong": {Evidence: tracer.EvidenceAdopted, Source: tracer.SourceEnv},
		"forked by 100 agent":   {Evidence: tracer.EvidenceFork, Creator: id(100)},
		"forked by 55":          {Evidence: tracer.EvidenceFork, Creator: id(55)},
		"adopted (unit), strong, requested by 100 agent":   {Evidence: tracer.EvidenceAdopted, Source: tracer.SourceUnit, Creator: id(100)},
		"adopted (parent), strong, child of 100 agent":     {Evidence: tracer.EvidenceAdopted, Source: tracer.SourceParent, Creator: id(100)},
		"child of 100 agent, found after a missed birth":   {Evidence: tracer.EvidenceReconciled, Creator: id(100)},
		"forked by 100 agent of the nested session 00000z": {Evidence: tracer.EvidenceFork, Creator: id(100), Session: 31 << 32},
	} {
		if p.Session == 0 {
			p.Session = session
		}
		if got := e.Plan(session, []tracer.Process{p}, everyone{})[0].Why; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
