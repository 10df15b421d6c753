//go:build linux

package export

import (
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestLogrotate: the file is rotated again and again under some hundred forks a second, with the
// configuration of docs/SIEM.md, and with Debian's "create" before it. No event of the history is
// missing in the files.
func TestLogrotate(t *testing.T) {
	stage.Need(t, "deps", "logrotate")
	i := stage.NewDaemon(t)
	log := filepath.Join(i.Dir, "ocsf.jsonl")
	var configs []string
	for _, global := range []string{"", "create\n"} {
		config := filepath.Join(i.Dir, "logrotate"+strings.TrimSpace(global))
		require.NoError(t, os.WriteFile(config, []byte(global+rotation(t, log)), 0o600))
		configs = append(configs, config)
	}
	ocsfExporter(i)
	began := time.Now()
	const rotations = 8 // more would remove the first file
	load := loaded(i, "load", rotations*time.Second)
	for n := range rotations {
		time.Sleep(time.Second)
		rotate := exec.Command("logrotate", "--force", "--state", filepath.Join(i.Dir, "rotated"), configs[n%2])
		if said, err := rotate.CombinedOutput(); err != nil || len(said) > 0 {
			t.Fatalf("%v: %v: %s", rotate.Args, err, said)
		}
	}
	load.Wait()
	i.Receipt(i.Record("load").ID)
	want := happened(t, i, began)
	var have map[string]int
	i.Until("events of all that happened", func() bool {
		have = written(t, unpacked(t, log)...)
		return !slices.ContainsFunc(want, func(w string) bool { return have[w] == 0 })
	})
	t.Logf("figure: %d launches and exits in %d files", len(want), len(unpacked(t, log)))
}

// rotation is the configuration of logrotate in docs/SIEM.md, for another file.
func rotation(t *testing.T, log string) string {
	t.Helper()
	page := require.ReadFile(t, filepath.Join(repository, "docs/SIEM.md"))
	const path = "/var/log/lineage-export/ocsf.jsonl"
	_, text, _ := strings.Cut(string(page), "```\n"+path+" {")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("docs/SIEM.md has no configuration")
	}
	return log + " {" + text
}

// unpacked returns a file and its rotated versions, all uncompressed.
func unpacked(t *testing.T, log string) []string {
	t.Helper()
	files, err := filepath.Glob(log + "*")
	require.NoError(t, err)
	for n, file := range files {
		if !strings.HasSuffix(file, ".gz") {
			continue
		}
		files[n] = filepath.Join(t.TempDir(), filepath.Base(file))
		in, err := os.Open(file)
		require.NoError(t, err)
		defer in.Close()
		out, err := os.Create(files[n])
		require.NoError(t, err)
		defer out.Close()
		text, err := gzip.NewReader(in)
		if err == nil {
			_, err = io.Copy(out, text)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return files
}
