//go:build linux

package timeout

import (
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

func TestMain(m *testing.M) {
	stage.Begin("test-timeout", "../../..")
	os.Exit(m.Run())
}
