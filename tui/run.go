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

// Options are what the command line and the environment say.
type Options struct {
	Query    api.WatchQuery
	Source   string // what is watched, if it is no daemon: the recording's name
	ReadOnly bool   // nothing can be ended
	Theme    string // auto, contrast, mono; see Themes
	ASCII    bool
	Now      func() time.Time
	Input    io.Reader // nil: the terminal that controls us
	Output   *os.File
	Environ  []string
}

// Run shows the view until the reader quits or ctx is done. The terminal is as
// it was when it returns, after a panic too.
func Run(ctx context.Context, c Client, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opts := []tea.ProgramOption{tea.WithContext(ctx), tea.WithOutput(o.Output), tea.WithEnvironment(o.Environ)}
	if o.Input != nil {
		opts = append(opts, tea.WithInput(o.Input))
	}
	_, err := tea.NewProgram(newModel(ctx, c, o), opts...).Run()
	if err != nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("draw on the terminal: %w", err)
	}
	return nil
}
