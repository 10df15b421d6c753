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
	"github.com/lineage-ebpf/lineage/tui/picture"
	"github.com/lineage-ebpf/lineage/tui/saved"
)

// Options are what the command line and the environment say.
type Options struct {
	// Connect finds the daemon, and the one session that is to be watched; nil: all.
	// It is tried again until it succeeds.
	Connect  func(ctx context.Context) (Client, *api.Session, error)
	Source   string // what is watched, if it is no daemon: the recording's name
	Hosts    bool   // several hosts are watched: the sessions at the top are hosts, the times are those of the day
	ReadOnly bool   // nothing can be ended
	Theme    string // see ink.Themes
	ASCII    bool
	Square   bool // the terminal has no rounded corners
	Mouse    bool
	State    string // file that remembers the arrangement; "": none does
	Now      func() time.Time
	// Tasks asks the kernel for the state of processes, User names a user; nil: they
	// are not known. Both may take time.
	Tasks   func([]api.Ref) map[api.Ref]picture.Task
	User    func(uid int) string
	Input   io.Reader // nil: the terminal that controls us
	Output  *os.File
	Environ []string
}

// Run shows the view until the reader quits or ctx is done. The terminal is as
// it was when it returns, after a panic too.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(ctx, o)
	if o.State != "" {
		state, err := saved.Load(o.State)
		if err != nil {
			m.complain("the remembered arrangement is ignored: %v", err)
		}
		m.restore(state)
	}
	opts := []tea.ProgramOption{tea.WithContext(ctx), tea.WithOutput(o.Output), tea.WithEnvironment(o.Environ)}
	if o.Input != nil {
		opts = append(opts, tea.WithInput(o.Input))
	}
	if _, err := tea.NewProgram(m, opts...).Run(); err != nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("draw on the terminal: %w", err)
	}
	if o.State != "" {
		if err := saved.Save(o.State, m.arrangement()); err != nil {
			return fmt.Errorf("remember the arrangement: %w", err)
		}
	}
	return nil
}
