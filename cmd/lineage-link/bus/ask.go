//go:build linux

package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

const (
	maxParts    = 2 * listed // of answers that wait
	maxPartsLen = 32 << 20   // bytes of them
	maxHosts    = 100_000
)

// ErrNobody says that nobody on the bus takes the messages of a subject.
var ErrNobody = errors.New("no program on the bus takes it")

// Ask sends a message, and has each called for what is answered until it has enough.
func (b *Bus) Ask(ctx context.Context, subject string, body []byte,
	each func(*Message) (more bool, err error)) error {
	if !b.Up() {
		return ErrDown
	}
	reply := inbox + b.name + "." + rand.Text() // those of nats.go follow one another: a host could guess the next one
	s, err := b.nc.SubscribeSync(reply)
	if err == nil {
		defer func() { _ = s.Unsubscribe() }() // the connection may be lost
		err = s.SetPendingLimits(maxParts, maxPartsLen)
	}
	if err == nil {
		err = b.nc.PublishRequest(subject, reply, body)
	}
	if err != nil {
		return fmt.Errorf("ask %s: %w", subject, err)
	}
	for {
		m, err := s.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrNoResponders) {
			return ErrNobody
		}
		if err != nil {
			return fmt.Errorf("no answer on %s: %w", subject, err)
		}
		more, err := each(&Message{Subject: m.Subject, Body: m.Data,
			Encoding: m.Header.Get(service.EncodingHeader), Head: headOf(m)})
		if err != nil || !more {
			return err
		}
	}
}

func headOf(m *nats.Msg) map[string]string {
	head := make(map[string]string, len(m.Header))
	for key := range m.Header {
		head[key] = m.Header.Get(key)
	}
	return head
}

// listed is how many hosts one request lists.
const listed = 1000

// Hosts are the names of the hosts that are there. The request is one that an account may have without the
// right to list or change streams.
func (b *Bus) Hosts(ctx context.Context) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	prefix := service.HostSubject("")
	for next, left := uint64(1), true; left; {
		ask := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%q,"batch":%d}`, next, prefix+"*", listed)
		err := b.Ask(ctx, "$JS.API.DIRECT.GET."+service.HostsStream, ask, func(m *Message) (more bool, err error) {
			switch status := m.Head["Status"]; status {
			case "":
			case "204", "404": // the end of the batch; none
				pending := m.Head["Nats-Num-Pending"]
				left = status == "204" && pending != "" && pending != "0"
				return false, nil
			default:
				return false, fmt.Errorf("the stream answers %s %.100q", status, m.Head["Description"])
			}
			seen, err := strconv.ParseUint(m.Head["Nats-Sequence"], 10, 64)
			if err != nil || seen < next || len(names) >= maxHosts {
				return false, errors.New("the bus answers something else than a stream does")
			}
			next = seen + 1
			if name := strings.TrimPrefix(m.Head["Nats-Subject"], prefix); service.IsName(name) {
				names = append(names, name)
			}
			return true, nil
		})
		switch {
		case errors.Is(err, ErrNobody):
			return nil, errors.New("the bus has no stream of hosts")
		case err != nil:
			return nil, err
		case left && next == 1:
			return nil, errors.New("the bus answers something else than a stream does")
		}
	}
	return names, nil
}
