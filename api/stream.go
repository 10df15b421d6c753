package api

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// MaxLine bounds a line of a stream, in bytes.
const MaxLine = 8 << 20

// ErrBroken is a stream that stopped without its last line. Nothing is lost
// yet: ask again with From one above the last Seq that was read.
var ErrBroken = errors.New("the stream broke")

// ErrNoEnd is the ErrBroken of a stream that stopped between two lines: every
// line that was sent has been read.
var ErrNoEnd = fmt.Errorf("%w without a last line", ErrBroken)

// Events calls each for every line, heartbeats and the last one, of kind
// "end", included; after that it returns nil. A stream without a last line is
// ErrBroken, in an UnreachableError.
func (c *client) Events(ctx context.Context, q EventsQuery, each func(*Event) error) error {
	v := values(
		"session",
		q.Session,
		"type",
		strings.Join(TypeNames(q.Types), ","),
		"from",
		number(q.From),
		"since",
		stamp(q.Since),
		"until",
		stamp(q.Until),
	)
	if q.Snapshot {
		v.Set("snapshot", "1")
	}
	var accept []string
	if q.Compressed {
		accept = []string{"gzip"}
	}
	return c.stream(ctx, "/v1/events", v, func(r io.Reader) error { return ReadEvents(r, each) }, accept...)
}

// Watch calls each as Events does.
func (c *client) Watch(ctx context.Context, each func(*Frame) error) error {
	return c.stream(ctx, "/v1/watch", nil, func(r io.Reader) error {
		return readLines(r, func(f *Frame) string { return f.Kind }, each)
	})
}

func (c *client) stream(ctx context.Context, path string, q url.Values,
	read func(io.Reader) error, accept ...string) error {
	resp, err := c.do(ctx, http.MethodGet, path, q, nil, accept...)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if body := io.Reader(resp.Body); resp.Header.Get("Content-Encoding") != "gzip" {
		err = read(body)
	} else if body, err = gzip.NewReader(body); err == nil {
		err = read(body)
	} else {
		err = fmt.Errorf("%w: %w", ErrBroken, err)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrBroken):
		return c.unreachable(err)
	}
	return err
}

// ReadEvents calls each for every line of r up to the one of kind "end". It returns
// ErrNoEnd if that line is missing, and ErrBroken if the last line is cut off, or a
// line is not an event or longer than MaxLine. An error of each ends the reading and is
// returned unchanged. each may keep the Event.
func ReadEvents(r io.Reader, each func(*Event) error) error {
	return readLines(r, func(ev *Event) string { return ev.Kind }, each)
}

func readLines[T any](r io.Reader, kind func(*T) string, each func(*T) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, MaxLine)
	lines.Split(wholeLines)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		line := new(T)
		if err := unmarshal(lines.Bytes(), line); err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrBroken, n, err)
		}
		if err := each(line); err != nil {
			return err
		}
		if kind(line) == "end" {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return ErrNoEnd
}

// unmarshal does what json.Unmarshal does, but json.Unmarshal would read a line twice
// more for a type that decodes itself.
func unmarshal(text []byte, doc any) error {
	if u, ok := doc.(json.Unmarshaler); ok {
		return u.UnmarshalJSON(text)
	}
	return json.Unmarshal(text, doc)
}

// wholeLines is bufio.ScanLines without a last line that has no newline: half
// a number reads as a number.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}
