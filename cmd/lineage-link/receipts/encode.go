//go:build linux

package receipts

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/outbox"
	"github.com/lineage-ebpf/lineage/cmd/lineage/link"
)

const (
	plainBytes = 64 << 10  // a larger message is compressed
	mostBytes  = 768 << 10 // of a message; a server takes 1 MiB by default
)

// ofSession makes the message with the receipt of a session.
func ofSession(host, id string, ended time.Time, d *api.Report) (*outbox.Item, error) {
	m := &link.Receipt{Head: api.NewHead("receipt"), Host: host, ID: id, Report: d}
	return item(m, ended, func() error {
		m.Report = &api.Report{
			Head: d.Head, Session: d.Session, Name: d.Name, State: d.State, Ended: d.Ended, EndReason: d.EndReason, EndedBy: d.EndedBy,
			Verdict: d.Verdict, VerdictWhy: d.VerdictWhy, DurationMS: d.DurationMS, Processes: []api.Outcome{}, Started: d.Started, Exited: d.Exited,
			Killed: d.Killed, Left: d.Left, ConfirmedEmpty: d.ConfirmedEmpty, Truncated: true, Counted: d.Counted, AuditHead: d.AuditHead,
		}
		return nil
	})
}

// OfCommand makes the message with the receipt of a command.
func OfCommand(host, command string, d *api.CommandReply) (*outbox.Item, error) {
	m := &link.Receipt{Head: api.NewHead("receipt"), Host: host, ID: "command-" + command, Command: d}
	return item(m, time.Now(), func() (err error) {
		m.Command, err = shortened(d)
		return err
	})
}

// shortened is a command's receipt without reports, and so without the host's signature.
func shortened(d *api.CommandReply) (*api.CommandReply, error) {
	var r api.CommandReceipt
	if err := json.Unmarshal([]byte(d.Receipt), &r); err != nil {
		return nil, fmt.Errorf("read the receipt of a command: %w", err)
	}
	r.Reports = nil
	text, err := json.Marshal(&r)
	return &api.CommandReply{Head: d.Head, Receipt: string(text)}, err
}

// item encodes a message, and again after it was shortened if it is too large.
func item(m *link.Receipt, ended time.Time, shorten func() error) (*outbox.Item, error) {
	body, encoding, err := Encode(m)
	if err == nil && len(body) > mostBytes {
		if err = shorten(); err == nil {
			m.Shortened = true
			body, encoding, err = Encode(m)
		}
	}
	if err != nil {
		return nil, err
	}
	return &outbox.Item{Head: outbox.Head{ID: m.ID, Ended: ended, Encoding: encoding}, Body: body}, nil
}

// Encode makes the body of a message, compressed if it is large.
func Encode(m any) (body []byte, encoding string, err error) {
	if body, err = json.Marshal(m); err != nil {
		return nil, "", fmt.Errorf("encode a message: %w", err)
	}
	return Pack(body)
}

// Pack compresses a body if it is large.
func Pack(body []byte) (packed []byte, encoding string, err error) {
	if len(body) <= plainBytes {
		return body, "", nil
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(body); err != nil {
		return nil, "", fmt.Errorf("compress a message: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, "", fmt.Errorf("compress a message: %w", err)
	}
	return b.Bytes(), link.Gzip, nil
}
