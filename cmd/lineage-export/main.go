//go:build linux

// Lineage-export sends what the daemon reports to other systems: traces and logs by
// OTLP/HTTP, OCSF records to a file.
//
// It is a program of its own because it is a network client, and the daemon's binary, which
// runs as root, has none. It only reads from the daemon, and needs no privilege.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/export"
)

// version is set by the linker.
var version = "devel"

// memory is the runtime's limit. The program's text and stacks are small beside it.
const memory = 44 << 20

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// usageError is a mistake that the caller has to fix before the next start.
type usageError struct{ error }

func run(ctx context.Context, args []string) int {
	log := logTo(os.Stderr, os.Getenv("NO_COLOR") != "")
	err := start(ctx, args, log)
	switch {
	case err == nil || errors.Is(err, pflag.ErrHelp):
		return api.ExitOK
	case errors.As(err, new(usageError)):
		fmt.Fprintln(os.Stderr, "lineage: export:", err)
		return api.ExitUsage
	}
	fmt.Fprintln(os.Stderr, "lineage: export:", err)
	if refused := new(api.Error); errors.As(err, &refused) {
		return refused.Exit
	}
	return api.ExitFailed
}

// logTo writes lines as the daemon does: of text on a terminal, else of JSON.
func logTo(f *os.File, plain bool) zerolog.Logger {
	var w io.Writer = f
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
		w = zerolog.ConsoleWriter{Out: f, NoColor: plain, TimeFormat: time.TimeOnly}
	}
	return zerolog.New(w).With().Timestamp().Logger()
}

// start reads the flags and follows the daemon until ctx is done.
func start(ctx context.Context, args []string, log zerolog.Logger) error {
	flags := pflag.NewFlagSet(export.Program, pflag.ContinueOnError)
	flags.SetOutput(os.Stdout)
	flags.Usage = func() { fmt.Printf("Usage: lineage export [flags]\n\n%s", flags.FlagUsages()) }
	var o export.Options
	o.Flags(flags)
	socket := flags.String("socket", os.Getenv("LINEAGE_SOCKET"), "the daemon's `path`")
	if err := flags.Parse(args); err != nil {
		return usageError{err}
	}
	if flags.NArg() > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	}
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	if *socket == "" {
		*socket = api.DefaultSocket
	}
	if o.State == "" {
		o.State = os.Getenv("STATE_DIRECTORY")
	}
	debug.SetMemoryLimit(memory)
	e, err := build(ctx, &o, *socket, log)
	if err != nil {
		return err
	}
	return e.run(ctx)
}
