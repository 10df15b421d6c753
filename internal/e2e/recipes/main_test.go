//go:build linux

package recipes

import (
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

const repository = "../../.."

func TestMain(m *testing.M) {
	stage.Begin("test-recipes", repository)
	os.Exit(m.Run())
}
