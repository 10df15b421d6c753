//go:build linux

package systemd

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/page"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestCompare makes systemd-run hold what package escapes tries under other tools, and
// writes the table into the page LNGTEST_PAGE. Without that variable it does not run.
func TestCompare(t *testing.T) {
	to := os.Getenv("LNGTEST_PAGE")
	if to == "" {
		t.Skip("run make compare-systemd")
	}
	fetched(t, scripts+"/fetch-qemu.sh", cache+"/qemu")
	fetched(t, scripts+"/fetch-kernels.sh", cache+"/kernels", series)
	fetched(t, scripts+"/systemd/rootfs.sh", cache+"/systemd")
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	build := exec.Command("go", "test", "-c", "-ldflags", "-s -w", "-o", filepath.Join(src, "bin/escapes.test"), "./internal/e2e/escapes")
	build.Dir, build.Env = repository, append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	for _, name := range []string{"bin/lineage", "bin/testdata", "testdata/bpffs.sh", "testdata/vm/systemd/guest", "internal/e2e/escapes/doc.go"} {
		if err == nil {
			to := filepath.Join(src, name)
			err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), exec.Command("cp", "-a", filepath.Join(repository, name), to).Run())
		}
	}
	if err != nil {
		t.Fatalf("%v: %s; run make build programs", err, out)
	}
	starts(t, dir, "compare.sh")
	ran := guest(t, machine{series, 1536, 30 * time.Minute}, []string{"compare"}, nil, cache+"/systemd/root", dir)
	said := regexp.MustCompile(`figure: (.* programs\.)\n\s*\n((?: *\|.*\n)+)`).FindSubmatch(ran["compare"].Output)
	if t.Failed() || said == nil {
		t.Fatal("no table in the output")
	}
	table := regexp.MustCompile(`(?m)^ +`).ReplaceAllString(string(said[2]), "")
	table = strings.ReplaceAll(table, "](", "](../../") // it was made for the README; the page is in docs/results/
	require.NoError(t, page.Write(to, "systemd", string(said[1])+"\n\n"+table))
}
