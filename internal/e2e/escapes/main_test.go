//go:build linux

package escapes

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/page"
)

func TestMain(m *testing.M) {
	stage.Begin("test-escapes", "../../..")
	code := m.Run()
	// LNGTEST_TABLE=FILE:NAME: where the table goes.
	if path, name, ok := strings.Cut(os.Getenv("LNGTEST_TABLE"), ":"); ok {
		err := errors.Join(page.Write(path, name, seen.table()), page.Write(path, "not tried", skipped()))
		if err != nil {
			fmt.Fprintln(os.Stderr, "escapes:", err)
			code = 1
		}
	}
	fmt.Println(seen.table())
	os.Exit(code)
}
