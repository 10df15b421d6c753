package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/lineage-ebpf/lineage/bpf"
)

func main() {
	rlimit.RemoveMemlock()
	spec, err := bpf.LoadLineage()
	if err != nil { panic(err) }
	spec.Variables["config"].Set(bpf.LineageConfig{CanSignal: 1, RingHalf: 4 << 20})
	maps := map[string]*ebpf.Map{}
	_ = maps
	names := []string{}
	for n := range spec.Programs { names = append(names, n) }
	for _, n := range names {
		if len(os.Args) > 1 && os.Args[1] != n { continue }
		s := spec.Copy()
		for m := range s.Programs { if m != n { delete(s.Programs, m) } }
		c, err := ebpf.NewCollection(s)
		if err != nil {
			var ve *ebpf.VerifierError
			if errors.As(err, &ve) {
				l := strings.Split(fmt.Sprintf("%+v", ve), "\n")
				if len(l) > 40 && len(os.Args) <= 1 { l = append(l[:3], l[len(l)-15:]...) }
				fmt.Println(n, strings.Join(l, "\n"))
			} else { fmt.Println(n, err) }
			continue
		}
		info, _ := c.Programs[n].Info()
		in, _ := info.Instructions()
		vi, _ := info.VerifiedInstructions()
		fmt.Println(n, "ok", len(in), "insns, verified", vi)
		c.Close()
	}
}
