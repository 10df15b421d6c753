package bpf

import (
	"crypto/sha256"
	"encoding/hex"
)

// ABI names the layout of everything that this package would pin: a daemon
// may open only the pins that a daemon with the same ABI made.
func ABI() string {
	sum := sha256.Sum256(_LineageBytes)
	return hex.EncodeToString(sum[:4])
}
