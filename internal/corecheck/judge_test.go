//go:build linux

package corecheck

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// made is a kernel with just what the programs need, from 6.9 on, but for what edit changes. edit gets each
// structure and each function, and returns by which types it is replaced.
func made(t *testing.T, edit func(btf.Type) []btf.Type) *btf.Spec {
	t.Helper()
	b, err := btf.NewBuilder(nil, nil)
	require.NoError(t, err)
	add := func(of btf.Type) {
		for _, x := range edit(of) {
			_, err := b.Add(x)
			require.NoError(t, err)
		}
	}
	met := map[string]bool{} // the objects share most
	add(&btf.Enum{Name: "btf_arg_tag", Size: 4, Values: []btf.EnumValue{{Name: "ARG_TAG_TRUSTED"}}})
	function := func(name string) { add(&btf.Func{Name: name, Type: &btf.FuncProto{Return: &btf.Void{}}}) }
	function("bpf_prog_test_run_raw_tp")
	for _, read := range []func() (*ebpf.CollectionSpec, error){bpf.LoadLineage, bpf.LoadBaseline} {
		spec, err := read()
		require.NoError(t, err)
		for of, err := range spec.Types.All() {
			require.NoError(t, err)
			if s, ok := of.(*btf.Struct); ok && !strings.Contains(s.Name, "___") && s.Name != "mm_rss_stat" && !met[s.Name] {
				met[s.Name] = true
				add(of)
			}
		}
		for _, p := range spec.Programs {
			if prefix := prefixes[p.AttachType]; prefix != "" {
				function(prefix + p.AttachTo)
			}
			for i := range p.Instructions {
				if p.Instructions[i].IsKfuncCall() {
					function(p.Instructions[i].Reference())
				}
			}
		}
	}
	spec, err := b.Spec()
	require.NoError(t, err)
	return spec
}

// renamed gives a structure's member another name.
func renamed(in, from, to string) func(btf.Type) []btf.Type {
	return func(of btf.Type) []btf.Type {
		if s, ok := of.(*btf.Struct); ok && s.Name == in {
			for i := range s.Members {
				if s.Members[i].Name == from {
					s.Members[i].Name = to
				}
			}
		}
		return []btf.Type{of}
	}
}

func without(name string) func(btf.Type) []btf.Type {
	return func(of btf.Type) []btf.Type {
		if of.TypeName() == name {
			return nil
		}
		return []btf.Type{of}
	}
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(btf.Type) []btf.Type
		want string // in the lines; "": none
	}{
		"complete":                      {func(of btf.Type) []btf.Type { return []btf.Type{of} }, ""},
		"RHEL 8":                        {renamed("task_struct", "start_boottime", "real_start_time"), "exec_event: no task_struct.start_boottime"},
		"a member that is tested for":   {renamed("signal_struct", "core_state", "x"), ""},
		"one with another in its place": {renamed("task_struct", "__state", "state"), ""},
		"neither":                       {renamed("task_struct", "__state", "x"), "verb_own: no task_struct.state"},
		"no tracepoint":                 {without("btf_trace_sched_process_exec"), "exec_event: no btf_trace_sched_process_exec"},
		"a tracepoint to do without":    {without("btf_trace_inet_sock_set_state"), ""},
		"a function to do without":      {without("bpf_send_signal_task"), ""},
		"a function":                    {without("bpf_task_from_pid"), "verb_settle: no bpf_task_from_pid"},
		"no functions": {func(of btf.Type) []btf.Type {
			if _, ok := of.(*btf.Func); ok {
				return nil
			}
			return []btf.Type{of}
		}, "before 5.10, or BTF without functions: no bpf_prog_test_run_raw_tp"},
		"before 6.9": {without("btf_arg_tag"), ""},
		"two task_structs": {func(of btf.Type) []btf.Type {
			if s, ok := of.(*btf.Struct); ok && s.Name == "task_struct" {
				other := btf.Copy(of).(*btf.Struct)
				for i := range other.Members {
					other.Members[i].Offset += 64
				}
				other.Size += 8
				return []btf.Type{of, other}
			}
			return []btf.Type{of}
		}, "exec_event: relocate Struct:\"task_struct\": byte_off: multiple types match: ambiguous relocation"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(judge(made(t, c.edit)), "\n")
			if !strings.Contains(got, c.want) || c.want == "" && got != "" {
				t.Errorf("want %q:\n%s", c.want, got)
			}
		})
	}
}

// One check is for both architectures.
func TestSameObjects(t *testing.T) {
	for _, name := range []string{"lineage", "baseline"} {
		if !bytes.Equal(require.ReadFile(t, "../../bpf/"+name+"_x86_bpfel.o"), require.ReadFile(t, "../../bpf/"+name+"_arm64_bpfel.o")) {
			t.Errorf("the objects of %s differ", name)
		}
	}
}
