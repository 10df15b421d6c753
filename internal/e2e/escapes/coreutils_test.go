//go:build linux

package escapes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// getlimits answers what the tests ask a program of that name, which coreutils builds.
const getlimits = `#!/bin/sh
echo INT_MAX=2147483647 UINT_OFLOW=4294967296 TIME_T_OFLOW=9223372036854775808
echo LDBL_MAX=1.18973149535723176502e+4932
`

// TestCoreutils: coreutils' own tests of timeout(1) pass, unchanged, with lineage in its place.
// LNGTEST_COREUTILS is its source.
func TestCoreutils(t *testing.T) {
	source := os.Getenv("LNGTEST_COREUTILS")
	if source == "" {
		t.Skip("LNGTEST_COREUTILS is not set; run make coreutils")
	}
	tests, err := filepath.Glob(filepath.Join(source, "tests/misc/timeout*"))
	require.NoError(t, err)
	require.Equal(t, len(tests), 5)
	i := stage.NewDaemon(t)
	build := filepath.Join(i.Dir, "build")
	require.NoError(t, os.MkdirAll(filepath.Join(build, "src"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(build, "src/timeout"), []byte("#!/bin/sh\nexec "+stage.Lineage+` timeout "$@"`+"\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(build, "src/getlimits"), []byte(getlimits), 0o755))
	for _, path := range tests {
		t.Run(filepath.Base(path), func(t *testing.T) {
			argv := []string{"bash", path} // a kill that takes -- is needed
			if strings.HasSuffix(path, ".pl") {
				argv = []string{"perl", "-w", "-I" + source + "/tests", "-MCuSkip", "-MCoreutils", "-MCuTmpdir qw(" + path + ")", path}
			}
			cmd := exec.Command("sh", append([]string{"-c", `exec "$@" 9>&2`, "sh"}, argv...)...)
			cmd.Dir = build
			cmd.Env = append(os.Environ(), "LINEAGE_SOCKET="+i.Socket, "srcdir="+source, "abs_srcdir="+source, "top_srcdir="+source,
				"abs_top_builddir="+build, "abs_top_srcdir="+source, "built_programs=timeout env", "SHELL=/bin/bash", "PERL=perl", "AWK=awk",
				"VERSION=9.1", "PACKAGE_VERSION=9.1", "LC_ALL=C", "fail=0", "TMPDIR="+i.Dir, "PATH="+filepath.Join(build, "src")+":"+os.Getenv("PATH"))
			if p := stage.Start(t, cmd).Wait(); p.Code() != 0 {
				t.Errorf("%v", p)
			}
		})
	}
}
