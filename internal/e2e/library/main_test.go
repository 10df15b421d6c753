//go:build linux

package library

import (
	"fmt"
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

func TestMain(m *testing.M) {
	stage.OnlyFrom("test-library")
	if err := stage.Prepare("../../.."); err != nil {
		fmt.Fprintln(os.Stderr, "library:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
