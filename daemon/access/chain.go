package access

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ChainHead names one record, and with it all records before it: "1206:9f86…", its number and the SHA-256
// of its line. The zero Head is that of an empty log.
type ChainHead struct {
	Seq  uint64
	Hash string // 64 hexadecimal digits
}

// ChainHeadOf is the head of a record with that line, without its line end.
func ChainHeadOf(seq uint64, line []byte) ChainHead {
	sum := sha256.Sum256(line)
	return ChainHead{Seq: seq, Hash: hex.EncodeToString(sum[:])}
}

// String is the head as [ParseHead] reads it; empty for an empty log.
func (h ChainHead) String() string {
	if h.Hash == "" {
		return ""
	}
	return fmt.Sprintf("%d:%s", h.Seq, h.Hash)
}

// ParseChainHead reads a head.
func ParseChainHead(s string) (ChainHead, error) {
	number, hash, _ := strings.Cut(s, ":")
	seq, err := strconv.ParseUint(number, 10, 64)
	if sum, hexErr := hex.DecodeString(hash); err != nil || seq == 0 || hexErr != nil || len(sum) != sha256.Size {
		return ChainHead{}, errors.New(`a record's number and SHA-256, "1206:9f86…", as "lineage status" and receipts show them`)
	}
	return ChainHead{Seq: seq, Hash: strings.ToLower(hash)}, nil
}
