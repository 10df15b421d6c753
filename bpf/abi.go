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
