//go:build linux

package escapes

import (
	"fmt"
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/testdata/e2e/stage"
)

func TestMain(m *testing.M) {
	if err := stage.Prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "escapes:", err)
		os.Exit(1)
	}
	code := m.Run()
	if path := os.Getenv("LNGTEST_TABLE"); path != "" {
		if err := seen.write(path); err != nil {
			fmt.Fprintln(os.Stderr, "escapes:", err)
			code = 1
		}
	}
	os.Exit(code)
}
