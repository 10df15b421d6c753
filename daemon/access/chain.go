package access

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// ChainHead names one record, and with it all records before it: "1206:9f86…", its number and the SHA-256
// of its line. The zero ChainHead is that of an empty log.
type ChainHead struct {
	Seq  uint64
	Hash string // 64 hexadecimal digits
}

// ChainHeadOf is the head of a record with that line, without its line end.
func ChainHeadOf(seq uint64, line []byte) ChainHead {
	sum := sha256.Sum256(line)
	return ChainHead{Seq: seq, Hash: hex.EncodeToString(sum[:])}
}

// String is the head as [ParseChainHead] reads it; empty for an empty log.
func (h ChainHead) String() string {
	if h.Hash == "" {
		return ""
	}
	return fmt.Sprintf("%d:%s", h.Seq, h.Hash)
}

func ParseChainHead(s string) (ChainHead, error) {
	number, hash, _ := strings.Cut(s, ":")
	seq, err := strconv.ParseUint(number, 10, 64)
	if sum, hexErr := hex.DecodeString(hash); err != nil || seq == 0 || hexErr != nil || len(sum) != sha256.Size {
		return ChainHead{}, errors.New(`a record's number and SHA-256, "1206:9f86…", as "lineage status" and receipts show them`)
	}
	return ChainHead{Seq: seq, Hash: strings.ToLower(hash)}, nil
}

// maxLine bounds a line, in bytes. A record has at most a quarter of it.
const maxLine = 1 << 20

type AuditRecord struct {
	Time     time.Time    `json:"time"`
	Seq      api.U64      `json:"seq"`
	Prev     string       `json:"prev"` // the SHA-256 of the line before; empty: it is the first one
	Verb     string       `json:"verb"`
	Decision string       `json:"decision"`
	Reason   string       `json:"reason,omitempty"`
	Caller   *AuditCaller `json:"caller,omitempty"` // absent: no caller asked
	Target   *AuditTarget `json:"target,omitempty"`
	Mode     string       `json:"mode"`
	Report   *api.Report  `json:"report,omitempty"`
	Receipt  string       `json:"receipt,omitempty"` // the digest of the whole report; absent: it waited too long
	whole    *api.Report
	// Count is how many refusals like it the record stands for; absent: one.
	Count uint64 `json:"count,omitempty"`
	Lost  uint64 `json:"lost,omitempty"` // records before this one that were not written
	// Oldest, in the first record of a file, is the first record that rotation has left.
	Oldest api.U64 `json:"oldest,omitempty"`
}

type AuditCaller struct {
	UID     int     `json:"uid"`
	PID     int     `json:"pid,omitempty"`
	StartNS api.U64 `json:"start_ns,omitempty"`
	Session string  `json:"session,omitempty"` // that it is a member of
	// Of a command that it brought: its id, and the operators who signed it.
	Command   string   `json:"command,omitempty"`
	Operators []string `json:"operators,omitempty"`
}

type AuditTarget struct {
	Session string  `json:"session,omitempty"`
	UID     int     `json:"uid,omitempty"` // of a session that ended
	PID     int     `json:"pid,omitempty"`
	StartNS api.U64 `json:"start_ns,omitempty"`
}

type ChainRecord struct {
	Head ChainHead
	AuditRecord
}

// Chain is a log that is being read, the oldest of its files first.
type Chain struct {
	Records    int
	Lost       uint64 // records that were not written
	Oldest     uint64 // the first record that rotation has left; 0: it has removed none
	Incomplete int    // lines that a killed daemon left unfinished: no record has their hash
	First      ChainRecord
	Last       ChainRecord
	Broken     []string // what was changed or is missing: at most maxBroken
}

// maxBroken bounds the list for a log in which everything is wrong.
const maxBroken = 100

// Read reads the next file of the log, and calls each for every record.
func (l *Chain) Read(name string, from io.Reader, each func(ChainRecord)) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	lines.Split(whole)
	for n := 1; lines.Scan(); n++ {
		l.line(fmt.Sprintf("%s:%d", name, n), lines.Bytes(), each)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		l.wrong("%s: a line of more than %d bytes: no daemon wrote it, and what follows it was not read",
			name, maxLine)
	} else if err != nil {
		return fmt.Errorf("read audit log %s: %w", name, err)
	}
	return nil
}

// whole gives lines that have an end: one without is still being written.
func whole(data []byte, _ bool) (advance int, line []byte, err error) {
	if end := bytes.IndexByte(data, '\n'); end >= 0 {
		return end + 1, data[:end], nil
	}
	return 0, nil, nil
}

func (l *Chain) line(where string, line []byte, each func(ChainRecord)) {
	var r AuditRecord
	if json.Unmarshal(line, &r) != nil || r.Seq == 0 {
		l.Incomplete++
		return
	}
	now := ChainRecord{ChainHeadOf(uint64(r.Seq), line), r}
	l.Lost, l.Oldest = l.Lost+r.Lost, max(l.Oldest, uint64(r.Oldest))
	switch {
	case l.Records == 0 && r.Prev == "" && r.Seq > 1:
		l.wrong("%s: record %d says that it is the first one", where, r.Seq)
	case r.Prev != l.Last.Head.Hash && l.Records > 0:
		l.wrong("%s: record %d does not follow record %d: one was changed, or some between them are missing",
			where, r.Seq, l.Last.Head.Seq)
	}
	if l.Records++; l.Records == 1 {
		l.First = now
	}
	l.Last = now
	each(now)
}

func (l *Chain) wrong(format string, args ...any) {
	if n := len(l.Broken); n < maxBroken {
		l.Broken = append(l.Broken, fmt.Sprintf(format, args...))
	} else {
		l.Broken[n-1] = "and more"
	}
}
