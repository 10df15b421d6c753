//go:build linux

// Package corecheck relocates the BPF objects against the BTF of kernels, without loading anything, and names what
// programs would read, call or attach to and a kernel has not.
package corecheck

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/lineage-ebpf/lineage/bpf"
)

// TestKernels judges the kernels whose types are in the files LNGTEST_BTF: BTF, or a vmlinux.
func TestKernels(t *testing.T) {
	files := strings.Fields(os.Getenv("LNGTEST_BTF"))
	if len(files) == 0 {
		t.Skip("run make corecheck")
	}
	for _, file := range files {
		kernel, err := btf.LoadSpec(file)
		wrong := []string{fmt.Sprint(err)}
		if err == nil {
			wrong = judge(kernel)
		}
		for _, what := range wrong {
			t.Errorf("%s: %s", file, what)
		}
	}
	t.Logf("%d kernels checked", len(files))
}

// judge says what a kernel lacks, for each program that the tracer would load there.
func judge(kernel *btf.Spec) (all []string) {
	if _, err := kernel.AnyTypesByName("bpf_prog_test_run_raw_tp"); err != nil {
		return []string{"before 5.10, or BTF without functions: no bpf_prog_test_run_raw_tp"}
	}
	objects := []func() (*ebpf.CollectionSpec, error){bpf.LoadBaseline}
	var tags *btf.Enum // as the tracer chooses: the other object needs 6.9
	if kernel.TypeByName("btf_arg_tag", &tags) == nil &&
		slices.ContainsFunc(tags.Values, func(v btf.EnumValue) bool { return v.Name == "ARG_TAG_TRUSTED" }) {
		objects = append(objects, bpf.LoadLineage)
	}
	for _, read := range objects {
		spec, err := read()
		if err != nil {
			return []string{err.Error()}
		}
		for name, p := range spec.Programs {
			if bad := lacks(p, spec.Types, kernel); len(bad) > 0 {
				all = append(all, name+": "+strings.Join(bad, ", "))
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(all))) // both objects have most programs
}

// The tracer does without these, and without what is attached to functions.
var spare = []string{"btf_trace_inet_sock_set_state", "bpf_send_signal_task"}

var prefixes = map[ebpf.AttachType]string{ebpf.AttachTraceRawTp: "btf_trace_", ebpf.AttachTraceIter: "bpf_iter_"}

// lacks says what a program needs and a kernel has not.
func lacks(p *ebpf.ProgramSpec, local, kernel *btf.Spec) []string {
	bad := map[int]string{}
	need := func(at int, name string) {
		if _, err := kernel.AnyTypesByName(name); err != nil && !slices.Contains(spare, name) {
			bad[at] = "no " + name
		}
	}
	if prefix := prefixes[p.AttachType]; prefix != "" {
		need(0, prefix+p.AttachTo)
	}
	var relocations []*btf.CORERelocation
	var at []int
	code := slices.Clone(p.Instructions)
	for i := range code {
		if code[i].IsKfuncCall() {
			need(i, code[i].Reference())
		}
		if r := btf.CORERelocationMetadata(&code[i]); r != nil {
			relocations, at = append(relocations, r), append(at, i)
		}
	}
	fixups, err := btf.CORERelocate(relocations, []*btf.Spec{kernel}, p.ByteOrder, local.TypeID)
	for i, f := range fixups {
		if err = errors.Join(err, f.Apply(&code[at[i]])); strings.HasSuffix(f.String(), "=poison") {
			bad[at[i]] = "no " + member(relocations[i], local)
		}
	}
	if err != nil {
		return []string{err.Error()}
	}
	run := reached(code)
	maps.DeleteFunc(bad, func(at int, _ string) bool { return !run[at] })
	return slices.Compact(slices.Sorted(maps.Values(bad)))
}

// accessor matches how the library prints a relocation: it has no other way to them.
var accessor = regexp.MustCompile(`"(\w+)"\[([0-9:]+)\]`)

// member names what a relocation reads, as task_struct.se.sum_exec_runtime.
func member(r *btf.CORERelocation, local *btf.Spec) string {
	m := accessor.FindStringSubmatch(r.String())
	t, _ := local.AnyTypeByName(m[1])
	name, _, _ := strings.Cut(m[1], "___") // a former kernel's
	for _, text := range strings.Split(m[2], ":")[1:] {
		if s, ok := btf.As[*btf.Struct](t); ok {
			i, _ := strconv.Atoi(text)
			name, t = strings.TrimSuffix(name+"."+s.Members[i].Name, "."), s.Members[i].Type
		} else if a, ok := btf.As[*btf.Array](t); ok {
			t = a.Type
		}
	}
	return name
}

// point is where a program may come, with a register that holds whether a member exists.
type point struct {
	at       int
	register asm.Register // RFP: none does
	exists   int64
}

// reached are the instructions that may run. What a test for a member rules out does not, as in the verifier.
func reached(code asm.Instructions) map[int]bool {
	index, functions := map[int]int{}, map[string]int{}
	for iter := code.Iterate(); iter.Next(); {
		index[int(iter.Offset)], functions[iter.Ins.Symbol()] = iter.Index, int(iter.Offset)
	}
	seen, all := map[point]bool{}, map[int]bool{}
	for todo := []point{{register: asm.RFP}}; len(todo) > 0; {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[p] {
			continue
		}
		seen[p], all[index[p.at]] = true, true
		ins, from := &code[index[p.at]], p.at
		if ins.IsFunctionReference() {
			todo = append(todo, point{at: functions[ins.Reference()], register: asm.RFP})
		}
		for _, by := range p.ways(ins) {
			p.at = from + by
			todo = append(todo, p)
		}
	}
	return all
}

func (p *point) ways(ins *asm.Instruction) []int {
	next, jump := int(ins.Width()), 1+int(ins.Offset)
	op := ins.OpCode.JumpOp()
	switch {
	case op == asm.Exit:
		return nil
	case op == asm.Ja:
		return []int{jump}
	case op != asm.InvalidJumpOp && op != asm.Call:
		if ins.Dst != p.register || ins.OpCode.Source() != asm.ImmSource || op != asm.JEq && op != asm.JNE {
			return []int{next, jump}
		} else if (p.exists == ins.Constant) == (op == asm.JEq) {
			return []int{jump}
		}
	case btf.CORERelocationMetadata(ins) != nil && ins.OpCode.ALUOp() == asm.Mov:
		p.register, p.exists = ins.Dst, ins.Constant
	case ins.Dst == p.register && !ins.OpCode.Class().IsStore(), op == asm.Call && p.register < asm.R6:
		p.register = asm.RFP
	}
	return []int{next}
}
