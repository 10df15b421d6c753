//go:build linux

package signed

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/system"
)

const maxKey = 64 << 10

// hostKey is an SSH key by which clients know this host.
type hostKey struct {
	path string // of the private key
	mark string // its fingerprint
}

// hostKeys finds the keys of the host, where sshd has them by default; Ed25519 first.
func hostKeys(dir string) (all []hostKey) {
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		path := filepath.Join(dir, "ssh_host_"+kind+"_key")
		text, err := readKey(path + ".pub")
		if err != nil {
			continue
		}
		if key, _, _, _, err := ssh.ParseAuthorizedKey(text); err == nil {
			all = append(all, hostKey{path, ssh.FingerprintSHA256(key)})
		}
	}
	return all
}

func readKey(path string) ([]byte, error) {
	f, err := system.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxKey))
}

// sign makes the reply with a receipt, signed with the key by which the command named this host, or
// else with the first one. An error says why it is unsigned; the reply is whole.
func (c *checker) sign(receipt string, hosts []string) (api.CommandReply, error) {
	d := api.CommandReply{Head: api.NewHead("command"), Receipt: receipt}
	keys := hostKeys(c.o.HostKeys)
	if len(keys) == 0 {
		return d, nil
	}
	key := keys[max(slices.IndexFunc(keys, func(k hostKey) bool { return slices.Contains(hosts, k.mark) }), 0)]
	text, err := readKey(key.path)
	if err != nil {
		return d, fmt.Errorf("read the host key: %w", err)
	}
	private, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return d, fmt.Errorf("read the host key %s: %w", key.path, err)
	}
	s, err := sshsig.Sign(bytes.NewReader([]byte(receipt)), private, sshsig.HashSHA512, api.ReceiptNamespace)
	if err != nil {
		return d, fmt.Errorf("sign with the host key: %w", err)
	}
	d.Signature, d.HostKey = string(sshsig.Armor(s)), key.mark
	return d, nil
}
