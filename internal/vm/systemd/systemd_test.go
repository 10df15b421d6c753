//go:build linux

package systemd

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/internal/vm/boot"
)

const (
	repository = "../../.."
	cache      = repository + "/.cache"
	scripts    = repository + "/testdata/vm"
	series     = "6.18" // of the kernel for testing the units
)

func TestMain(m *testing.M) {
	stage.OnlyFrom("test-systemd")
	os.Exit(m.Run())
}

// fetched runs a script that downloads. Without network the test is skipped, but not in
// CI.
func fetched(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("%v: %v: %s", args, err, out)
	default:
		t.Skipf("%v: %v: %s", args, err, out)
	}
}

func names(t *testing.T, script string) []string {
	t.Helper()
	text := require.ReadFile(t, scripts+"/systemd/guest/"+script)
	m := regexp.MustCompile(`(?s)\nfor name in (.*?); do`).FindSubmatch(text)
	if m == nil {
		t.Fatal("the script has no list of checks")
	}
	return strings.Fields(strings.ReplaceAll(string(m[1]), "\\\n", ""))
}

// only are the requested checks; none: all of them. What they depend on is run as well.
func only(t *testing.T, all []string) []string {
	t.Helper()
	asked := strings.Fields(os.Getenv("LNGTEST_CHECKS"))
	for _, name := range asked {
		if !slices.Contains(all, name) {
			t.Fatalf("LNGTEST_CHECKS: there is no check %s; there are %v", name, all)
		}
	}
	return asked
}

// built has go make a program: the daemon with another version, or a package's tests.
func built(t *testing.T, to, how string, args ...string) {
	t.Helper()
	build := exec.Command("go", append([]string{how, "-o", to}, args...)...)
	build.Dir, build.Env = repository, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// overlay is what the guest has in addition to Debian: the result of make all, and how
// it is installed and checked.
func overlay(t *testing.T, asked []string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"bin/lineage", "bin/lineage-mcp", "bin/lineage-export", "bin/lineage-link", "bin/man", "bin/completion", "bin/NOTICES", "packaging", "docs/policy.schema.json", "LICENSE", "docs/RECIPES.md", "testdata/vm/systemd/guest"} {
		from, to := filepath.Join(repository, name), filepath.Join(dir, "src", name)
		err := os.MkdirAll(filepath.Dir(to), 0o755)
		if err == nil {
			err = exec.Command("cp", "-a", from, to).Run()
		}
		if err != nil {
			t.Fatalf("%s: %v; run make all", name, err)
		}
	}
	built(t, filepath.Join(dir, "src/upgrade/lineage"), "build", "-trimpath", "-ldflags", "-s -w -X main.version=lngtest-upgrade", "./cmd/lineage")
	built(t, filepath.Join(dir, "src/cgroup.test"), "test", "-c", "./daemon/cgroup")
	if len(asked) > 0 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "src/only"), []byte(strings.Join(asked, " ")), 0o644))
	}
	starts(t, dir, "checks.sh")
	return dir
}

func starts(t *testing.T, dir, script string) {
	t.Helper()
	units := filepath.Join(dir, "etc/systemd/system")
	err := os.MkdirAll(filepath.Join(units, "multi-user.target.wants"), 0o755)
	for _, link := range []string{"lngtest.service", "multi-user.target.wants/lngtest.service"} {
		if err == nil {
			err = os.Symlink("/src/testdata/vm/systemd/guest/lngtest.service", filepath.Join(units, link))
		}
	}
	require.NoError(t, err)
	run := "[Service]\nExecStart=\nExecStart=/bin/bash /src/testdata/vm/systemd/guest/" + script + "\n"
	err = errors.Join(os.MkdirAll(filepath.Join(units, "lngtest.service.d"), 0o755),
		os.WriteFile(filepath.Join(units, "lngtest.service.d/script.conf"), []byte(run), 0o644))
	require.NoError(t, err)
}

func TestSystemd(t *testing.T) {
	fetched(t, scripts+"/fetch-qemu.sh", cache+"/qemu")
	with := cmp.Or(os.Getenv("LNGTEST_SERIES"), series)
	fetched(t, scripts+"/fetch-kernels.sh", cache+"/kernels", with)
	fetched(t, scripts+"/systemd/rootfs.sh", cache+"/systemd")
	checks := names(t, "checks.sh")
	asked := only(t, checks)
	guest(t, machine{with, 1536, 20 * time.Minute}, checks, asked, cache+"/systemd/root", overlay(t, asked))
}

// machine is the differences between the guests.
type machine struct {
	series string // of the kernel
	memory int    // in MiB
	limit  time.Duration
}

// guest boots these folders, whose script runs the checks, and reports each as a test. It
// returns what ran, by name.
func guest(t *testing.T, with machine, checks, asked []string, folders ...string) map[string]boot.Job {
	t.Helper()
	kernel, err := filepath.EvalSymlinks(filepath.Join(cache, "kernels", with.series))
	require.NoError(t, err)
	initramfs, err := boot.Pack(folders...)
	require.NoError(t, err)
	m := boot.Machine{
		QEMU: cache + "/qemu/qemu-system-x86_64", Kernel: filepath.Join(kernel, "vmlinuz"), CPUs: 2, MemoryMB: with.memory,
		Append: boot.LSM + " systemd.show_status=no systemd.log_target=console systemd.log_level=warning systemd.default_timeout_start_sec=10min", Timeout: with.limit,
	}
	r, err := m.Run(t.Context(), initramfs)
	if r == nil {
		t.Fatal(err)
	}
	t.Logf("figure: the guest took %v", r.Took.Round(time.Second))
	ran := map[string]boot.Job{}
	for _, job := range r.Jobs {
		ran[job.Name] = job
	}
	for _, name := range checks {
		t.Run(name, func(t *testing.T) {
			job, ok := ran[name]
			t.Logf("%v\n%s", job.Took, job.Output)
			switch {
			case !ok && len(asked) > 0 && !slices.Contains(asked, name):
				t.Skip("not asked for")
			case !ok:
				t.Error("did not run")
			case job.Code != 0:
				t.Errorf("exit %d", job.Code)
			}
		})
	}
	if err != nil {
		t.Error(err)
	}
	if complaints := boot.Complaints(r.Console); len(complaints) > 0 {
		t.Errorf("the kernel complains: %q", complaints)
	}
	if errors.Is(err, boot.ErrUnfinished) || t.Failed() {
		t.Logf("console:\n%s", r.Console)
	}
	return ran
}
