// Package webhook posts findings, signed as Standard Webhooks specifies
// (https://www.standardwebhooks.com): HMAC-SHA256 over id, time and body.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
)

// The size of a key, in bytes.
const (
	minKey = 24
	maxKey = 64
)

// Sink posts each event of its encoder alone.
type Sink struct {
	URL     string
	Key     []byte
	HTTP    *http.Client // which follows no redirect
	Encoder record.Encoder
	Log     zerolog.Logger

	refused atomic.Uint64
	taken   map[string]bool // ids in the current batch that the receiver has accepted
}

// Name is webhook.
func (s *Sink) Name() string { return "webhook" }

// Refused counts events that the receiver rejected.
func (s *Sink) Refused() uint64 { return s.refused.Load() }

// Close does nothing: nothing is open.
func (s *Sink) Close() error { return nil }

// Deliver posts the events of a batch one after the other. After an error, events that the
// receiver has accepted are not posted again.
func (s *Sink) Deliver(ctx context.Context, batch []*record.Record) error {
	for _, r := range batch {
		for l, err := range s.Encoder.Encode(r) {
			if err != nil {
				s.refuse(r, err)
				continue
			}
			if s.taken[l.ID] {
				continue
			}
			switch err := s.post(ctx, l.ID, l.JSON); {
			case errors.As(err, new(refusal)):
				s.refuse(r, err)
			case err != nil:
				return err
			}
			if s.taken == nil {
				s.taken = make(map[string]bool)
			}
			s.taken[l.ID] = true
		}
	}
	s.taken = nil
	return nil
}

func (s *Sink) refuse(r *record.Record, err error) {
	s.refused.Add(1)
	s.Log.Error().Str("kind", string(r.Kind)).Str("id", r.ID).Err(err).Msg("a finding is left out")
}

// refusal is a reply that says that this event will never be accepted.
type refusal struct{ error }

// post sends one event. The id is the same in each attempt, and the time of the attempt is signed:
// a receiver can recognise a repeat, and an old request that an attacker replays.
func (s *Sink) post(ctx context.Context, id string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "lineage-export")
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", at)
	req.Header.Set("webhook-signature", Sign(s.Key, id, at, body))
	resp, err := s.HTTP.Do(req)
	if err != nil {
		return err // it names method and URL
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	return answered(resp)
}

// answered is the error for a reply that is not a success. A redirect is an error: the signature would
// go to another host. A status that rejects the body is a refusal; any other error may be temporary.
func answered(resp *http.Response) error {
	if resp.StatusCode/100 == 2 {
		return nil
	}
	err := fmt.Errorf("%s: %s", resp.Request.URL, resp.Status)
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return refusal{err}
	}
	if resp.StatusCode/100 == 3 {
		return fmt.Errorf("%w: redirects are not followed", err)
	}
	return follow.Retry(err, resp.Header)
}

// Sign is the signature of a body, as in the header.
func Sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// ReadKey reads a key from a file: whsec_ and Base64, as Standard Webhooks writes it, or else the
// bytes themselves. No error repeats the file's content.
func ReadKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err // it names the path
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := st.Mode(); mode.IsRegular() && mode.Perm()&0o007 != 0 {
		return nil, fmt.Errorf("key %s: every user may read or write it; chmod 600", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return nil, err
	}
	key := bytes.TrimSpace(text)
	if coded, is := strings.CutPrefix(string(key), "whsec_"); is {
		if key, err = base64.StdEncoding.DecodeString(coded); err != nil {
			return nil, fmt.Errorf("key %s: not Base64 after whsec_", path)
		}
	}
	if len(key) < minKey || len(key) > maxKey {
		return nil, fmt.Errorf("key %s: has %d bytes, must be %d to %d", path, len(key), minKey, maxKey)
	}
	return key, nil
}
