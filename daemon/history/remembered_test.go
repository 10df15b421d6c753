//go:build linux

package history_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestRememberedBytes: what an earlier version wrote of a session is read, and written again with the
// same bytes under each key. testdata/remembered.json has every key; no version may write another one
// for what it means.
func TestRememberedBytes(t *testing.T) {
	w := daemontest.New(t)
	golden, err := os.ReadFile("testdata/remembered.json")
	require.NoError(t, err)
	w.K.Add(100, 1, "lngtest-root")
	var all []registry.Part
	err = w.Service.Registry.Update(func(tx registry.Tx) {
		id, err := w.K.Create(tracer.SessionSpec{Root: w.K.Proc(100).Identity, UID: 1000})
		if err != nil {
			t.Error(err)
			return
		}
		tx.Remember(id, golden, nil)
		all = tx.Memory(tx.Ask(id))
	})
	if err != nil || t.Failed() {
		t.Fatal(err)
	}
	text, err := registry.EncodeMemory(all, w.Service.Rules.Redact)
	require.NoError(t, err)
	var got, want map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &got))
	require.NoError(t, json.Unmarshal(golden, &want))
	for key := range want {
		if !bytes.Equal(got[key], want[key]) {
			t.Errorf("%s: written as\n%s\nwant\n%s", key, got[key], want[key])
		}
		delete(got, key)
	}
	for key := range got {
		t.Errorf("%s is not in the golden file: %s", key, got[key])
	}
}
