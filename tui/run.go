package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
)

type Options struct {
	// Connect finds the daemon. It is tried again until it succeeds.
	Connect  func(ctx context.Context) (Client, error)
	Filter   string // the first selection; empty: none
	ReadOnly bool   // nothing can be ended
	Theme    string // see ink.Themes
	ASCII    bool
	// Select reads a selection of sessions, in words and flags.
	Select  func(words []string) (*api.Selection, error)
	Now     func() time.Time
	Input   io.Reader
	Output  *os.File
	Environ []string
}

// Run shows the view until the reader quits or ctx is done. When it returns, the
// terminal is restored, even after a panic.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	program := tea.NewProgram(newModel(ctx, o), tea.WithContext(ctx), tea.WithInput(o.Input),
		tea.WithOutput(o.Output), tea.WithEnvironment(o.Environ))
	if _, err := program.Run(); err != nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("draw on the terminal: %w", err)
	}
	return nil
}
