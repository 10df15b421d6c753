//go:build linux

// Package service is what lineage and the programs that it starts as services share: flags, signals, log, exit codes, a
// directory for what outlives a restart, and what hosts and operators exchange over NATS servers. It also hides secrets
// in arguments as the history does, in output that others may read.
package service

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
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

// Parse reads the flags that add adds, which check looks at, and the daemon's socket.
func Parse(command string, args []string, add func(*pflag.FlagSet),
	check func() error) (socket string, err error) {
	flags := pflag.NewFlagSet(command, pflag.ContinueOnError)
	add(flags)
	flags.SetOutput(os.Stdout)
	flags.Usage = func() { fmt.Printf("Usage: lineage %s [flags]\n\n%s", command, flags.FlagUsages()) }
	flags.StringVar(&socket, "socket", os.Getenv("LINEAGE_SOCKET"), "the daemon's `path`")
	if err := flags.Parse(args); err != nil {
		return "", UsageError{err}
	}
	if flags.NArg() > 0 {
		return "", UsageError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	}
	if err := check(); err != nil {
		return "", UsageError{err}
	}
	return cmp.Or(socket, api.DefaultSocket), nil
}

// TLS trusts the system's certificates, or those in the file of --ca.
func TLS(ca string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca == "" {
		return config, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--ca %s: no certificate in PEM form", ca)
	}
	return config, nil
}

// Together runs all parts of a program until ctx is done, or one of them fails: then all end, and the service manager
// starts the program again.
func Together(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	for i, part := range parts {
		all.Go(func() {
			if errs[i] = part(ctx); errs[i] != nil {
				stop()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Lasting is a part that ends with ctx alone.
func Lasting(run func(context.Context)) func(context.Context) error {
	return func(ctx context.Context) error {
		run(ctx)
		return nil
	}
}

// Trouble is the last error of what is tried again and again.
type Trouble struct{ said string }

// Say logs an error once for as long as it is the same, and, unless over is empty, when it is over.
func (t *Trouble) Say(log zerolog.Logger, err error, text, over string) {
	before := t.said
	if t.said = ""; err != nil {
		t.said = err.Error()
	}
	switch {
	case t.said == before:
	case err != nil:
		log.Warn().Err(err).Msg(text)
	case over != "":
		log.Info().Msg(over)
	}
}

// logTo writes lines as the daemon does: of text on a terminal, else of JSON.
func logTo(f *os.File, plain bool) zerolog.Logger {
	var w io.Writer = f
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
		w = zerolog.ConsoleWriter{Out: f, NoColor: plain, TimeFormat: time.TimeOnly}
	}
	return zerolog.New(w).With().Timestamp().Logger()
}
