package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

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

// Patience is how long an operation may take before its progress is shown, and the time
// between updates.
const Patience = time.Second

// Status is a line on stderr that is overwritten.
func (c *Console) Status() *text.Status { return text.NewStatus(c.Stderr, width(c.Stderr)) }

// During shows on a terminal what is being done, starting after Patience, until done is
// called. what gets the current time.
func (c *Console) During(what func(now time.Time) string) (done func()) {
	line := c.Status()
	if !line.Possible() {
		return func() {}
	}
	over := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() {
		ticks := time.Tick(Patience)
		for {
			select {
			case now := <-ticks:
				line.Show(what(now))
			case <-over:
				line.Clear()
				return
			}
		}
	})
	return sync.OnceFunc(func() { close(over); shown.Wait() })
}

func Terminal(w any) (unix.Winsize, bool) {
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

// width is the columns of a terminal, 0 if w is not a terminal.
func width(w any) int {
	size, ok := Terminal(w)
	if ok && size.Col == 0 {
		return 80
	}
	return int(size.Col)
}

// canAsk reports whether a user can read a question and answer it.
func (c *Console) canAsk() bool {
	_, in := Terminal(c.Stdin)
	_, out := Terminal(c.Stderr)
	return in && out
}

// Confirm shows a page and asks a question below it. Anything but a yes is an error of the command.
func (c *Console) Confirm(command string, p *text.Page, question string) error {
	if !c.canAsk() {
		return Usage("%s: cannot ask for confirmation (not a terminal); use --yes", command)
	}
	if err := p.Flush(); err != nil {
		return err
	}
	if !c.Agreed(question) {
		return Errorf(api.ExitFailed, "%s: not confirmed, nothing was sent", command)
	}
	return nil
}

func (c *Console) Agreed(question string) bool {
	fmt.Fprintf(c.Stderr, "%s [y/N] ", question)
	answer, err := bufio.NewReader(c.Stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(c.Stderr)
		return false
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}
