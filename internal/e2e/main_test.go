//go:build linux

package e2e

import (
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "lngtest-inside" {
		os.Exit(inside(os.Args[2]))
	}
	if len(os.Args) > 2 && os.Args[1] == "lngtest-signals" {
		os.Exit(sendSignals(os.Args[2]))
	}
	if len(os.Args) > 2 && os.Args[1] == "lngtest-tgkill" {
		os.Exit(killThread(os.Args[2]))
	}
	if len(os.Args) > 2 && os.Args[1] == "lngtest-kill" {
		os.Exit(killNamed(os.Args[2]))
	}
	if len(os.Args) > 1 && os.Args[1] == "lngtest-spin" {
		os.Exit(spin())
	}
	if len(os.Args) > 3 && os.Args[1] == "lngtest-requests" {
		os.Exit(sendRequests(os.Args[2], os.Args[3]))
	}
	if len(os.Args) > 2 && os.Args[1] == "lngtest-serve" {
		os.Exit(serve(os.Args[2]))
	}
	stage.Begin("test-e2e", "../..")
	os.Exit(m.Run())
}
