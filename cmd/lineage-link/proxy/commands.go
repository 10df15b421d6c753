//go:build linux

package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage/link"
)

const (
	maxCommand  = 64 << 10 // bytes, as a link takes them
	maxReceipt  = 16 << 20
	acceptTime  = 15 * time.Second // a host has to accept a command
	receiptTime = api.MaxGrace + 5*time.Minute
)

// commands are those that were sent, by host and id: their receipts come on the same inbox.
type commands struct {
	mu   sync.Mutex
	sent map[string]*command
}

// command is one that a host accepted. reply is the latest, and over is closed when it is the last one.
type command struct {
	reply *api.CommandReply
	over  chan struct{}
}

func (c *commands) set(key string, reply *api.CommandReply, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sent[key]
	if s == nil {
		s = &command{over: make(chan struct{})}
		c.sent[key] = s
	}
	select {
	case <-s.over: // it is final
	default:
		s.reply = reply
		if over {
			close(s.over)
		}
	}
}

func (c *commands) get(key string) (reply *api.CommandReply, over <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sent[key]; s != nil {
		return s.reply, s.over
	}
	return nil, nil
}

// order brings a signed command to the host, and waits until it is accepted or refused.
func (p *Proxy) order(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxCommand+1))
	var signed api.SignedCommand
	var named struct {
		ID string `json:"id"`
	}
	if err != nil || len(body) > maxCommand || json.Unmarshal(body, &signed) != nil || json.Unmarshal([]byte(signed.Command), &named) != nil {
		fail(w, api.NewError(api.CodeBadRequest, "not a signed command", ""))
		return
	}
	first := make(chan error, 1)
	key := r.Host + "/" + named.ID
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), receiptTime)
		defer cancel()
		accepted := false
		err := p.bus.Ask(ctx, link.CommandSubject(r.Host), body, 0, func(m *bus.Message) (more bool, err error) {
			text, err := unpack(m, maxReceipt)
			var a link.Answer
			switch {
			case err != nil:
				return false, err
			case json.Unmarshal(text, &a) != nil:
				return false, errors.New("the answer is not that of a link")
			case a.State == link.Refused && a.Why != nil && !accepted:
				return false, a.Why
			case a.Reply == nil || a.State != link.Accepted && a.State != link.Over || a.State == link.Over != accepted:
				return false, errors.New("the answer is not that of a link")
			}
			p.commands.set(key, a.Reply, accepted)
			if accepted {
				return false, nil
			}
			accepted = true
			first <- nil
			return true, nil
		})
		if !accepted {
			first <- err
		}
	}()
	select {
	case err = <-first:
	case <-time.After(acceptTime):
		err = errors.New("no answer; whether the host took the command is not known")
	case <-r.Context().Done():
		return
	}
	switch {
	case errors.Is(err, bus.ErrNobody):
		fail(w, errors.New("no link of this host is on the bus; nothing was sent"))
	case err != nil:
		fail(w, err)
	default:
		doc, _ := p.commands.get(key)
		reply(w, http.StatusOK, doc)
	}
}

// receipt waits for the receipt of a command. Until it comes, the reply has none that is complete.
func (p *Proxy) receipt(w http.ResponseWriter, r *http.Request) {
	key := r.Host + "/" + r.PathValue("id")
	_, over := p.commands.get(key)
	if over == nil {
		fail(w, api.NewError(api.CodeNotFound, "the command was not sent from here", ""))
		return
	}
	wait, _ := time.ParseDuration(r.FormValue("wait")) // without: not at all
	select {
	case <-over:
	case <-time.After(wait):
	case <-r.Context().Done():
		return
	}
	doc, _ := p.commands.get(key)
	reply(w, http.StatusOK, doc)
}
