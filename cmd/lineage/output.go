package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// listing is one answer in every format.
type listing struct {
	doc   any         // json: the document
	items []any       // jsonl: its items, each with its kind
	names []string    // name
	text  func(*page) // table, wide
}

// formatFlag adds -o to a command.
func formatFlag(cmd *cobra.Command) *choice {
	f := &choice{"table", []string{"table", "wide", "json", "jsonl", "name"}}
	cmd.Flags().VarP(f, "output", "o", "`format`: table, wide, json, jsonl or name")
	cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(f.words, cobra.ShellCompDirectiveNoFileComp))
	return f
}

// print writes l to stdout: all of it, or nothing.
func (a *app) print(format string, l listing) error {
	p := a.page(a.stdout, format == "wide")
	switch format {
	case "json":
		enc := jsonEncoder(p.w)
		enc.SetIndent("", "  ")
		if err := enc.Encode(l.doc); err != nil {
			return fmt.Errorf("encode document: %w", err)
		}
	case "jsonl":
		enc := jsonEncoder(p.w)
		for _, item := range l.items {
			if err := enc.Encode(item); err != nil {
				return fmt.Errorf("encode item: %w", err)
			}
		}
	case "name":
		for _, n := range l.names {
			p.line("%s", display.Text(n))
		}
	default:
		l.text(p)
	}
	return p.flush()
}

func jsonEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(visible{w})
	enc.SetEscapeHTML(false)
	return enc
}

// visible escapes what the JSON encoder leaves as it is and a terminal would
// act on: DEL, C1 controls, bidirectional overrides. They can only be in
// strings. Each Write is a whole value, as json.Encoder writes.
type visible struct{ w io.Writer }

func (v visible) Write(b []byte) (int, error) {
	hidden := func(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }
	if bytes.IndexFunc(b, hidden) < 0 {
		return v.w.Write(b)
	}
	out := make([]byte, 0, len(b)+64)
	for _, r := range string(b) {
		if !hidden(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	if _, err := v.w.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// page is a place for human text.
type page struct {
	w     *bufio.Writer
	wide  bool
	color bool
	width int // columns; 0: not a terminal
	now   time.Time
}

func (a *app) page(w io.Writer, wide bool) *page {
	width := columns(w)
	color := a.color.value == "always"
	if a.color.value == "auto" {
		color = width > 0 && a.env("NO_COLOR") == "" && a.env("TERM") != "dumb"
	}
	return &page{w: bufio.NewWriter(w), wide: wide, color: color, width: width, now: a.now()}
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

func (p *page) flush() error {
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// columns is the width of a terminal, 0 if w is none.
func columns(w any) int {
	size, ok := terminal(w)
	if ok && size.Col == 0 {
		return 80
	}
	return int(size.Col)
}

// terminal gives the size of w if it is a terminal.
func terminal(w any) (unix.Winsize, bool) {
	f, ok := w.(*os.File)
	if !ok {
		return unix.Winsize{}, false
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return unix.Winsize{}, false
	}
	return *size, true
}

// The colours, ANSI-16 only. A word or a letter always says the same.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (p *page) paint(color, s string) string {
	if !p.color || color == "" || s == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

// head makes the opening of a document.
func head(kind string) api.Head { return api.Head{Schema: api.Schema, Kind: kind} }
