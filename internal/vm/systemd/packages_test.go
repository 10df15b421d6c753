//go:build linux

package systemd

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// previous is the commit whose package is upgraded to this one's, and later installed over
// it again. It is the last one before lineage had packages: this tree packs its program.
const previous = "928c362cf920b487f138b3192a183b39963a94ed"

// debians are the suites, each with the series of its own kernel.
var debians = []struct{ suite, series string }{{"bookworm", "6.1"}, {"trixie", "6.12"}}

// TestPackages installs, upgrades with live sessions, rolls back, removes and purges the
// package on each Debian.
func TestPackages(t *testing.T) {
	fetched(t, scripts+"/fetch-qemu.sh", cache+"/qemu")
	found, err := filepath.Glob(repository + "/bin/dist/lineage_*_amd64.deb")
	if err != nil || len(found) != 1 {
		t.Fatalf("%v %v; run make deb", found, err)
	}
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	sessions := strconv.Itoa(stage.FromEnv(t, "LNGTEST_SESSIONS", 50))
	err = errors.Join(os.MkdirAll(filepath.Join(src, "testdata/vm/systemd"), 0o755),
		os.WriteFile(filepath.Join(src, "sessions"), []byte(sessions), 0o644),
		exec.Command("cp", found[0], filepath.Join(src, "new.deb")).Run(),
		exec.Command("cp", packed(t, t.TempDir()), filepath.Join(src, "previous.deb")).Run(),
		exec.Command("cp", "-a", scripts+"/systemd/guest", filepath.Join(src, "testdata/vm/systemd/guest")).Run())
	require.NoError(t, err)
	starts(t, dir, "packages.sh")
	for _, d := range debians {
		t.Run(d.suite, func(t *testing.T) {
			fetched(t, scripts+"/fetch-kernels.sh", cache+"/kernels", d.series)
			fetched(t, scripts+"/systemd/debian.sh", cache+"/systemd", d.suite)
			guest(t, machine{d.series, 2560, 40 * time.Minute}, names(t, "packages.sh"), nil, filepath.Join(cache, "systemd", d.suite), dir)
		})
	}
}

// packed builds the program of the previous commit, and a package of it, in dir.
func packed(t *testing.T, dir string) string {
	t.Helper()
	script := `tree=$1/tree; git clone -q --no-checkout . "$tree"; git -C "$tree" checkout -q "$2"
		(cd "$tree"; CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=0.0.1 -E lineage_start' -o "$1/lineage" ./cmd/lineage)
		cp bin/lineage-mcp bin/lineage-export bin/lineage-link "$1/" # it had none
		BUILT=$1 VERSION=0.0.1 SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$2") packaging/package.sh deb amd64 "$1"`
	build := exec.Command("bash", "-euc", script, "packed", dir, previous)
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, strings.TrimSpace(string(out)))
	}
	return filepath.Join(dir, "lineage_0.0.1_amd64.deb")
}
