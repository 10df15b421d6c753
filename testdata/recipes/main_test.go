//go:build linux

package recipes

import (
	"fmt"
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

func TestMain(m *testing.M) {
	if err := stage.Prepare("../.."); err != nil {
		fmt.Fprintln(os.Stderr, "recipes:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
