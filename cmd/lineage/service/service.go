//go:build linux

// Package service is what the programs have in common that lineage starts, and that run as services of
// their own: signals, the log and exit codes.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
)

// UsageError is a mistake that the caller has to fix before the next start.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }
func (e UsageError) Unwrap() error { return e.Err }

// Run runs a command of lineage until SIGTERM or SIGINT, and returns its exit code.
func Run(command string, start func(context.Context, []string, zerolog.Logger) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := start(ctx, os.Args[1:], logTo(os.Stderr, os.Getenv("NO_COLOR") != ""))
	if err == nil || errors.Is(err, pflag.ErrHelp) {
		return api.ExitOK
	}
	fmt.Fprintf(os.Stderr, "lineage: %s: %v\n", command, err)
	if errors.As(err, new(UsageError)) {
		return api.ExitUsage
	}
	if refused, ok := errors.AsType[*api.Error](err); ok {
		return refused.Exit
	}
	return api.ExitFailed
}

// Parse reads the flags that a command has, and the daemon's socket.
func Parse(command string, flags *pflag.FlagSet, args []string) (socket string, err error) {
	flags.SetOutput(os.Stdout)
	flags.Usage = func() { fmt.Printf("Usage: lineage %s [flags]\n\n%s", command, flags.FlagUsages()) }
	flags.StringVar(&socket, "socket", os.Getenv("LINEAGE_SOCKET"), "the daemon's `path`")
	if err := flags.Parse(args); err != nil {
		return "", UsageError{err}
	}
	if flags.NArg() > 0 {
		return "", UsageError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	}
	if socket == "" {
		socket = api.DefaultSocket
	}
	return socket, nil
}

// logTo writes lines as the daemon does: of text on a terminal, else of JSON.
func logTo(f *os.File, plain bool) zerolog.Logger {
	var w io.Writer = f
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
		w = zerolog.ConsoleWriter{Out: f, NoColor: plain, TimeFormat: time.TimeOnly}
	}
	return zerolog.New(w).With().Timestamp().Logger()
}
