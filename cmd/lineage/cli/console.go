package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// Console is the injected environment of a command, and how it wants its output.
type Console struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            func(string) string
	Now            func() time.Time
	// Interrupts gives the SIGINTs and SIGTERMs from now on, until stop.
	Interrupts func() (c <-chan os.Signal, stop func())

	Color   string   // auto, always or never
	Columns []string // that tables show, if a command has the flag
}

// Say writes one line to stderr.
func (c *Console) Say(format string, args ...any) {
	io.WriteString(c.Stderr, display.InLocale(c.Env, "lineage: "+display.Text(fmt.Sprintf(format, args...))+"\n"))
}

// Complain writes an error as one line.
func (c *Console) Complain(err error) {
	text := display.Error(err)
	if e, ok := errors.AsType[*api.Error](err); ok && len(e.Items) > 0 {
		var ids []string
		for _, s := range e.Items {
			ids = append(ids, fmt.Sprintf("%s (%s, uid %d)", s.ID, s.State, s.UID))
		}
		text += ": " + strings.Join(ids, ", ")
	}
	c.Say("%s", text)
}

// Failed complains of the errors that are not nil, and returns the worst of their exit codes as an error without text.
func (c *Console) Failed(errs ...error) error {
	worst, said := api.ExitOK, ""
	for _, err := range errs {
		if err == nil {
			continue
		}
		if err.Error() != said { // else it is the same of all: the daemon is lost
			c.Complain(err)
		}
		worst, said = max(worst, ExitCode(err)), err.Error()
	}
	return Silent(worst)
}

// Print writes l to stdout: all of it, or nothing.
func (c *Console) Print(format string, l *text.Listing) error {
	return l.Write(c.Page(c.Stdout, format == "wide"), format)
}

// Page is a page on one of the streams.
func (c *Console) Page(w io.Writer, wide bool) *text.Page {
	p := text.NewPage(w, c.Now())
	p.Wide, p.Width, p.Env = wide, width(w), c.Env
	p.Columns = c.Columns
	p.Color = c.Color == "always"
	if c.Color == "auto" {
		p.Color = p.Width > 0 && c.Env("NO_COLOR") == "" && c.Env("TERM") != "dumb"
	}
	return p
}

// UntilInterrupt is ctx, cancelled by the first SIGINT or SIGTERM.
func (c *Console) UntilInterrupt(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals, stop := c.Interrupts()
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); stop() }
}
