//go:build linux

package registry_test

import (
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/daemontest"
)

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m)) }
