//go:build linux

package escapes

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

func TestMain(m *testing.M) {
	stage.OnlyFrom("test-escapes")
	if err := stage.Prepare("../../.."); err != nil {
		fmt.Fprintln(os.Stderr, "escapes:", err)
		os.Exit(1)
	}
	code := m.Run()
	// LNGTEST_TABLE=FILE:NAME: where the table goes.
	if path, name, ok := strings.Cut(os.Getenv("LNGTEST_TABLE"), ":"); ok {
		err := errors.Join(write(path, name, seen.table()), write(path, "not tried", skipped()))
		if err != nil {
			fmt.Fprintln(os.Stderr, "escapes:", err)
			code = 1
		}
	}
	fmt.Println(seen.table())
	os.Exit(code)
}
