package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// Terminal gives the size of w if it is a terminal.
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

// CanAsk reports whether a user can read a question and answer it.
func (c *Console) CanAsk() bool {
	_, in := Terminal(c.Stdin)
	_, out := Terminal(c.Stderr)
	return in && out
}

// Confirm shows a page and asks a question below it. Anything but a yes is an error of the command.
func (c *Console) Confirm(command string, p *text.Page, question string) error {
	if !c.CanAsk() {
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

// Agreed asks a question, and reports whether the answer is yes.
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
