//go:build linux

package main

import (
	"bytes"
	"context"
	"io"

	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
)

// writeSize is how many bytes are gathered before a write.
const writeSize = 1 << 20

type lines struct {
	encode follow.Encoder
	buffer bytes.Buffer
}

func (l *lines) Name() string { return "ocsf" }

// write writes the lines of a batch, some at a time: members decide how long all of them are.
func (l *lines) write(batch []*follow.Record, write func([]byte) error) error {
	l.buffer.Reset()
	for _, r := range batch {
		for x := range l.encode(r) {
			l.buffer.Write(x.JSON)
			l.buffer.WriteByte('\n')
			if l.buffer.Len() < writeSize {
				continue
			}
			if err := write(l.buffer.Bytes()); err != nil {
				return err
			}
			l.buffer.Reset()
		}
	}
	if l.buffer.Len() == 0 {
		return nil
	}
	return write(l.buffer.Bytes())
}

// fileStream writes lines to standard output, or any other stream that may block.
type fileStream struct {
	lines
	out     io.Writer
	writing chan error // not nil: a write has not returned
}

func newFileStream(out io.Writer, encode follow.Encoder) *fileStream {
	return &fileStream{lines: lines{encode: encode}, out: out}
}

// Deliver writes the events of a batch. If the reader of the stream does not read, it returns when
// ctx is done; the write continues, and the next Deliver, with the same batch, waits for it.
func (s *fileStream) Deliver(ctx context.Context, batch []*follow.Record) error {
	if s.writing == nil {
		s.writing = make(chan error, 1)
		go func(done chan<- error) {
			done <- s.write(batch, func(text []byte) error {
				_, err := s.out.Write(text)
				return err
			})
		}(s.writing)
	}
	select {
	case err := <-s.writing:
		s.writing = nil
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close does nothing: the stream belongs to the caller.
func (s *fileStream) Close() error { return nil }
