//go:build linux

package holdings_test

import (
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/daemontest"
)

// TestMain also runs this binary as a process that holds a port and a lock: first word lngtest-holder,
// and as others that listen: lngtest-server and lngtest-passer.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "lngtest-holder" {
		os.Exit(holder(os.Args[2]))
	}
	if len(os.Args) > 1 && os.Args[1] == "lngtest-server" {
		os.Exit(listenToStdin())
	}
	if len(os.Args) > 2 && os.Args[1] == "lngtest-passer" {
		os.Exit(listenAndPass(os.Args[2]))
	}
	os.Exit(daemontest.Main(m))
}
