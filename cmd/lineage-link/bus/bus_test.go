//go:build linux

package bus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/cmd/lineage/link"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestKey: a key that others may read is refused, and an error about one does not show it.
func TestKey(t *testing.T) {
	seed := filepath.Join(t.TempDir(), "seed")
	connect := func(mode os.FileMode, text string) string {
		require.NoError(t, os.WriteFile(seed, []byte(text), 0o600), os.Chmod(seed, mode))
		b, err := Connect(&link.Options{Servers: []string{"nats://127.0.0.1:1"}, Name: "web1", Nkey: seed}, "test", zerolog.Nop())
		if err != nil {
			return err.Error()
		}
		b.Close()
		return ""
	}
	text := func(create func() (nkeys.KeyPair, error)) string {
		pair, err := create()
		require.NoError(t, err)
		b, err := pair.Seed()
		require.NoError(t, err)
		return string(b)
	}
	user := text(nkeys.CreateUser)
	require.Equal(t, connect(0o600, user), "")
	require.Equal(t, connect(0o400, user), "")
	for _, mode := range []os.FileMode{0o644, 0o604, 0o620, 0o602} {
		require.Contains(t, connect(mode, user), "others may read the key; chmod 600")
	}
	for _, text := range []string{"", "SUAxxxx", "secret", text(nkeys.CreateAccount)} {
		if got := connect(0o600, text); !strings.HasSuffix(got, ": no seed of a user's nkey") || strings.Contains(got, "secret") {
			t.Errorf("%q: %s", text, got)
		}
	}
	if _, err := Connect(&link.Options{Servers: []string{"nats://127.0.0.1:1"}, Creds: seed + "x"}, "test", zerolog.Nop()); err == nil {
		t.Error("credentials that are not there")
	}
}
