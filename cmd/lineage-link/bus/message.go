//go:build linux

package bus

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

// plainBytes is what a body may have; a larger one is compressed.
const plainBytes = 64 << 10

// Message is what came, or is to be sent.
type Message struct {
	Subject  string
	Body     []byte
	Encoding string            // of the body
	Head     map[string]string // other headers
	ID       string            // by which a stream knows repeats, if they come soon
	TTL      time.Duration     // how long a stream keeps it; 0: as it keeps others
	After    *Place            // what the stream has last of the subject, or it refuses; nil: whatever it has
	reply    string            // where an answer goes; empty: nowhere
}

func (m *Message) Encode(doc any) error {
	body, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	return m.pack(body)
}

// pack is the body as it is, or compressed if it is large.
func (m *Message) pack(body []byte) error {
	if m.Body, m.Encoding = body, ""; len(body) <= plainBytes {
		return nil
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(body)
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("compress a message: %w", err)
	}
	m.Body, m.Encoding = b.Bytes(), service.Gzip
	return nil
}

// unpack is the body as it was packed. It may have at most that many bytes.
func (m *Message) unpack(most int) ([]byte, error) {
	body := m.Body
	if m.Encoding == service.Gzip {
		r, err := gzip.NewReader(bytes.NewReader(m.Body))
		if err == nil {
			body, err = io.ReadAll(io.LimitReader(r, int64(most)+1))
		}
		if err != nil {
			return nil, fmt.Errorf("an answer cannot be read: %w", err)
		}
	}
	if len(body) > most {
		return nil, errors.New("an answer is too large")
	}
	return body, nil
}

// inbox begins the subjects that an answer may go to. Others could be those of servers: who may send a
// command must not use this host's rights for them.
const inbox = "_INBOX."

// Asker tells senders apart that want an answer; empty: it wants none.
func (m *Message) Asker() string {
	if !strings.HasPrefix(m.reply, inbox) {
		return ""
	}
	return m.reply
}

// message is m under a subject.
func (m *Message) message(subject string) *nats.Msg {
	msg := nats.NewMsg(subject)
	msg.Data = m.Body
	for key, value := range m.Head {
		msg.Header.Set(key, value)
	}
	if m.Encoding != "" {
		msg.Header.Set(service.EncodingHeader, m.Encoding)
	}
	return msg
}
