//go:build linux

// Package bus is the connection to the NATS servers, and the daemon's API over it. A host answers requests that come as
// messages, and says that it is there and how it is; an operator's proxy sends requests. Only this package knows nats.go.
package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

const (
	dialTime      = 10 * time.Second
	operatorPause = time.Second // between two attempts of an operator to connect
	replyTime     = 10 * time.Second
	maxPending    = 256     // messages that wait
	maxPendingLen = 1 << 20 // bytes of them
	quietTime     = 10 * time.Second
)

// Longest is the longest wait for the next attempt to connect: the links of all hosts come back spread over
// it. Tests shorten it.
var Longest = 30 * time.Second

// Bus is a connection, which is made again whenever it is lost.
type Bus struct {
	nc      *nats.Conn
	js      nats.JetStreamContext
	name    string // in subjects
	log     zerolog.Logger
	dropped atomic.Uint64  // messages that came too fast
	quiet   zerolog.Logger // see quiet
	closing atomic.Bool
	gone    chan error // why the client gave up
}

// Connect begins to connect. An error is about an option, or a file that an option names: servers that
// cannot be reached are tried again.
func Connect(o *service.LinkOptions, version string, log zerolog.Logger) (*Bus, error) {
	longest := Longest
	spread := nats.CustomReconnectDelay(func(int) time.Duration { return rand.N(longest) })
	return connect(o, version, log, nats.RetryOnFailedConnect(true), spread)
}

// Reach connects as an operator, or says why it cannot: with [ErrDown] it is not about an option.
func Reach(o *service.LinkOptions, version string, log zerolog.Logger) (*Bus, error) {
	soon := nats.CustomReconnectDelay(func(int) time.Duration { return operatorPause })
	return connect(o, version, log, soon)
}

func connect(o *service.LinkOptions, version string, log zerolog.Logger, again ...nats.Option) (*Bus, error) {
	b := &Bus{
		name: o.Name, log: log, quiet: quiet(log),
		gone: make(chan error, 1),
	}
	opts, err := b.options(o, version)
	if err != nil {
		return nil, err
	}
	b.nc, err = nats.Connect(strings.Join(o.Servers, ","), append(opts, again...)...)
	if err == nil {
		b.js, err = b.nc.JetStream()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDown, err)
	}
	return b, nil
}

// options are what links and operators have in common.
func (b *Bus) options(o *service.LinkOptions, version string) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name(service.LinkProgram + " " + version), nats.Timeout(dialTime),
		nats.NoEcho(), nats.CustomInboxPrefix(inbox + o.Name),
		nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.IgnoreDiscoveredServers(),
		nats.ReconnectBufSize(-1), // a message that waited in memory would be late
		nats.ConnectHandler(func(nc *nats.Conn) { b.connected(nc) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { b.connected(nc) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err == nil {
				err = errors.New("the server closed it")
			}
			b.log.Warn().Err(err).Msg("connection to the bus lost; trying again")
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { b.failed(err) }),
		nats.ClosedHandler(func(nc *nats.Conn) { // a server can make the client give up for good
			if !b.closing.Load() {
				b.gone <- fmt.Errorf("the server ended the connection: %w",
					cmp.Or(nc.LastError(), nats.ErrConnectionClosed))
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) { b.failed(err) }),
	}
	security, err := secure(o)
	return append(opts, security...), err
}

// secure makes the options for TLS and for the host's identity.
func secure(o *service.LinkOptions) (opts []nats.Option, err error) {
	if o.Secure() {
		config, err := service.TLS(o.CA)
		if err != nil {
			return nil, err
		}
		opts = append(opts, nats.Secure(config))
	}
	opts = append(opts, nats.SkipHostLookup()) // the name is what the certificate is compared with
	switch {
	case o.Nkey != "":
		if err := private(o.Nkey); err != nil {
			return nil, fmt.Errorf("--nkey: %w", err)
		}
		nkey, err := nats.NkeyOptionFromSeed(o.Nkey)
		if err != nil {
			return nil, fmt.Errorf("--nkey %s: no seed of a user's nkey", o.Nkey) // the error could have a part of it
		}
		opts = append(opts, nkey)
	case o.Creds != "":
		if err := private(o.Creds); err != nil {
			return nil, fmt.Errorf("--creds: %w", err)
		}
		opts = append(opts, nats.UserCredentials(o.Creds))
	}
	return opts, nil
}

// private returns an error unless only its owner, and root, may read a file. The service manager gives
// a unit its credentials as a file of root's group.
func private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	mode := info.Mode()
	if mode.Perm()&0o037 != 0 || mode.Perm()&0o040 != 0 && info.Sys().(*syscall.Stat_t).Gid != 0 {
		return fmt.Errorf("%s has mode %04o: others may read the key; chmod 600", path, mode.Perm())
	}
	return nil
}

func (b *Bus) connected(nc *nats.Conn) {
	b.log.Info().Str("server", nc.ConnectedUrlRedacted()).Msg("connected to the bus")
}

// failed logs an error, which servers and those who send commands can cause.
func (b *Bus) failed(err error) {
	if errors.Is(err, nats.ErrSlowConsumer) {
		if b.dropped.Add(1) == 1 {
			b.log.Warn().Msg("more commands come than are handled; the rest is dropped")
		}
		return
	}
	b.quiet.Warn().Err(err).Msg("the bus refuses, or cannot be reached")
}

// quiet logs what others can cause as often as they like: a line stands for all in some time.
func quiet(log zerolog.Logger) zerolog.Logger {
	return log.Sample(&zerolog.BurstSampler{Burst: 1, Period: quietTime})
}

func (b *Bus) Close() {
	b.closing.Store(true)
	b.nc.Close()
}

// Wait waits until ctx is done, or with an error until the client will not connect again: a new one has to be made.
func (b *Bus) Wait(ctx context.Context) error {
	select {
	case err := <-b.gone:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (b *Bus) Up() bool { return b.nc.IsConnected() }

// Subscribe has each called for each message, one after the other. Of more than a few it drops the rest.
func (b *Bus) Subscribe(subject string, each func(*Message)) error {
	s, err := b.nc.Subscribe(subject, func(m *nats.Msg) { each(&Message{Subject: m.Subject, Body: m.Data, reply: m.Reply}) })
	if err == nil {
		err = s.SetPendingLimits(maxPending, maxPendingLen)
	}
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	return nil
}

// Answer sends a message to the sender of m. It is not sent if that wants none.
func (b *Bus) Answer(m *Message, answer *Message) error {
	if m.Asker() == "" {
		return nil
	}
	return b.nc.PublishMsg(answer.message(m.reply))
}

// Store publishes a message, and returns nil when the stream has stored it.
func (b *Bus) Store(ctx context.Context, stream string, m *Message) error {
	if !b.Up() {
		return ErrDown
	}
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	opts := []nats.PubOpt{nats.Context(ctx), nats.ExpectStream(stream), nats.MsgId(m.ID), nats.MsgTTL(m.TTL)}
	if m.After != nil {
		opts = append(opts, nats.ExpectLastSequencePerSubject(m.After.Seq))
	}
	stored, err := b.js.PublishMsg(m.message(m.Subject), opts...)
	refused, is := errors.AsType[*nats.APIError](err)
	switch {
	case is:
		return fmt.Errorf("the stream refuses: %.200q", refused.Description)
	case err != nil:
		return fmt.Errorf("store in stream %s: %w", stream, err)
	case stored.Stream != stream:
		return fmt.Errorf("stored in stream %.100q, not in %s", stored.Stream, stream)
	case stored.Duplicate: // another host may have used the id
		return errors.New("the stream has a message with this id already")
	}
	return nil
}

// Place is a message of a stream; the zero value: none.
type Place struct {
	ID  string
	Seq uint64
}

// Last is the newest message that a stream has of a subject. A server that lags behind the others may answer, and
// not know the newest one yet.
func (b *Bus) Last(ctx context.Context, stream, subject string) (*Place, error) {
	if !b.Up() {
		return nil, ErrDown
	}
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	m, err := b.js.GetLastMsg(stream, subject, nats.DirectGet(), nats.Context(ctx))
	switch {
	case errors.Is(err, nats.ErrMsgNotFound):
		return &Place{}, nil
	case err != nil:
		return nil, fmt.Errorf("the stream %s does not answer: %.200q", stream, err.Error())
	}
	return &Place{m.Header.Get(nats.MsgIdHdr), m.Sequence}, nil
}

// ErrDown says that the connection is lost, or not made yet.
var ErrDown = errors.New("not connected to the bus")
