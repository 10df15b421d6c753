//go:build linux

package agents

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/internal/page"
)

type result struct {
	row   *row
	red   int           // left without lineage
	green bool          // with lineage, none was left
	named int           // in the receipts
	end   time.Duration // from the beginning of the end to the verdict, the longest
}

var results []result

// writeTable writes the results into the document that LNGTEST_PAGE names.
func writeTable() error {
	path := os.Getenv("LNGTEST_PAGE")
	if path == "" {
		return nil
	}
	slices.SortFunc(results, func(a, b result) int { return cmp.Compare(a.row.number, b.row.number) })
	table := page.NewTable("#:", "thread", "agent", "what happens", "left without lineage:", "left with:", "named in the receipt:", "end:")
	green := 0
	for _, r := range results {
		left := "?"
		if r.green {
			green++
			left = "0"
		}
		table.Row(fmt.Sprint(r.row.number), r.row.thread, r.row.agent.name, r.row.does, fmt.Sprint(r.red), left,
			fmt.Sprint(r.named), r.end.Round(time.Millisecond).String())
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	var tried []string
	for _, a := range agents {
		tried = append(tried, a.name+" "+a.version)
	}
	kernel, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-") // what follows is the builder's
	head := fmt.Sprintf("%s, Linux %s, %s: %d of %d rows passed.", time.Now().UTC().Format(time.DateOnly), kernel, strings.Join(tried, ", "), green, len(results))
	return page.Write(path, "threads", head+"\n\n"+table.String())
}
