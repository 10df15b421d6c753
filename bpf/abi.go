package bpf

import (
	"crypto/sha256"
	"encoding/hex"
)

// ABI names the layout of everything that this package would pin: a daemon
// may open only the pins that a daemon with the same ABI made.
func ABI() string {
	h := sha256.New()
	h.Write(_LineageBytes)
	h.Write(_BaselineBytes)
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// Objects gives the SHA-256 of each compiled object, as sha256sum prints it for
// the committed file.
func Objects() map[string]string {
	sum := func(object []byte) string {
		s := sha256.Sum256(object)
		return hex.EncodeToString(s[:])
	}
	return map[string]string{"lineage": sum(_LineageBytes), "baseline": sum(_BaselineBytes)}
}
