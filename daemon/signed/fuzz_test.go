//go:build linux

package signed

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// FuzzCommand: of all texts and signatures, only a text that was signed is accepted.
func FuzzCommand(f *testing.F) {
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))) // the same in each process
	require.NoError(f, err)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ann, err := parseSigner("ann " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey()))))
	require.NoError(f, err)
	grace := int64(1500)
	signed := map[string]bool{}
	for _, c := range []api.Command{
		{Sessions: []string{"build", "ci-*"}, Plan: ""},
		{Sessions: []string{"k3x9q2"}, Plan: "1f2e", GraceMS: &grace},
		{All: true},
		{Verb: api.VerbHalt, Mode: api.ModeHalt, All: true},
		{Verb: api.VerbHalt, Mode: api.ModeOff},
	} {
		c.V, c.ID, c.Hosts, c.Reason = 1, strings.Repeat("0a", 16), []string{"SHA256:host"}, "test <&>"
		if c.Verb == "" {
			c.Verb = api.VerbEnd
		}
		c.Issued, c.NotAfter = now, now.Add(time.Minute)
		s, err := sshsig.Sign(strings.NewReader(c.Text()), key, sshsig.HashSHA512, api.CommandNamespace)
		require.NoError(f, err)
		signed[c.Text()] = true
		f.Add(c.Text(), string(sshsig.Armor(s)))
	}
	f.Fuzz(func(t *testing.T, text, signature string) {
		c, err := api.ParseCommand(text)
		if err == nil && c.Text() != text {
			t.Errorf("%q is read as %q", text, c.Text())
		}
		if _, no := verify(text, signature, []signer{ann}, now); err == nil && no == nil && !signed[text] {
			t.Errorf("accepted: %q", text)
		}
	})
}
