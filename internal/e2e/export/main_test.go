//go:build linux

package export

import (
	"fmt"
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

const repository = "../../.."

func TestMain(m *testing.M) {
	stage.OnlyFrom("test-e2e")
	if err := stage.Prepare(repository); err != nil {
		fmt.Fprintln(os.Stderr, "export:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
