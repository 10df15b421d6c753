//go:build linux

package follow

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestKeptModel: a model that cannot be used is one line of the log. Events continue from the
// cursor without it, and the next model replaces it.
func TestKeptModel(t *testing.T) {
	d := newDaemon(t)
	at := place{Schema: schema, Boot: d.boot, TimeNS: boottime(), Time: time.Now()}
	b, err := json.Marshal(&at)
	require.NoError(t, err)
	later := at
	later.TimeNS++
	ahead, err := json.Marshal(&keptModel{modelSchema, later})
	require.NoError(t, err)
	for text, want := range map[string]string{
		"":  "is damaged",
		"{": "is damaged",
		`{"at":` + string(b) + `,"model":{"boot":"x"}}` + "\n":                                     "another format", // of an exporter before the first release
		`{"at":` + string(b) + `,"model":"` + strings.Repeat("x", 1<<20) + `"}` + "\n":             "another format",
		`{"schema":"` + modelSchema + `","at":` + string(b) + "}\n":                                "its end is missing",
		`{"schema":"` + modelSchema + `","at":` + string(b) + "}\n" + `{"image":{}}` + "\n":        "line 1",
		string(ahead) + "\n" + `{"model":{"boot":"` + d.boot + `"}}` + "\n" + `{"lines":1}` + "\n": "does not belong to the cursor",
	} {
		l, dir := &list{}, t.TempDir()
		store, err := OpenStore(dir)
		if err != nil || store.writeCursor("list", &at) != nil || os.WriteFile(filepath.Join(dir, "list.model"), []byte(text), 0o600) != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		f := &Follower{Sink: l, Store: store, Host: &record.Host{ID: "h"}, Log: zerolog.New(&log)}
		require.NoError(t, f.Open())
		f.restore()
		if f.model != nil || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), want) || !strings.Contains(log.String(), "the kept model is not used") {
			t.Errorf("%.80q: model %v, log %q, want %q", text, f.model, log.String(), want)
		}
		store.Close()
		_, stop := follower(t, d, l, dir)
		d.add(fork(10), exit(10))
		require.Eventually(t, "record", func() bool { return len(l.pids()) > 0 })
		stop()
		if b, err := os.ReadFile(filepath.Join(dir, "list.model")); err != nil || !strings.HasPrefix(string(b), `{"schema":"`+modelSchema+`"`) {
			t.Errorf("%.80q: afterwards %.80q, %v", text, b, err)
		}
	}
}

// TestLeftState: files that a killed exporter was writing are removed at the next start, and nothing else.
func TestLeftState(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"otlp.cursor", "otlp.model", "otlp.cursor.new", "ocsf.model.new", "otlp.model.new-x", "my.notes.new", "x.cursor.new.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "x.model.new"), 0o700))
	store, err := OpenStore(dir)
	require.NoError(t, err)
	defer store.Close()
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range all {
		names = append(names, e.Name())
	}
	require.Equal(t, strings.Join(names, " "), "lock my.notes.new otlp.cursor otlp.model otlp.model.new-x x.cursor.new.txt x.model.new")
}
