//go:build linux

package export

import (
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

const repository = "../../.."

func TestMain(m *testing.M) {
	stage.Begin("test-e2e", repository)
	os.Exit(m.Run())
}
