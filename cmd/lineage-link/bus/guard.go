//go:build linux

package bus

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// What a server may send. The client of nats.go takes the memory for a message when its size is
// announced, and for a line of any length.
const (
	maxLine    = 32 << 10
	maxPayload = 8 << 20 // more than a server should allow
)

// errHostile ends a connection.
var errHostile = errors.New("the server is not a NATS server, or hostile")

// dialer makes connections that end when the server sends more than it may.
type dialer struct {
	tls *tls.Config // nil: without TLS
	log zerolog.Logger
}

// SkipTLSHandshake says that Dial does it: what a server sends is bounded above TLS.
func (d *dialer) SkipTLSHandshake() bool { return true }

// Dial connects to a server, which says first, without TLS, who it is.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.DialTimeout(network, address, dialTime)
	if err != nil {
		return nil, err
	}
	if d.tls == nil {
		return &guarded{Conn: c, log: d.log}, nil
	}
	if err := c.SetDeadline(time.Now().Add(dialTime)); err != nil {
		c.Close()
		return nil, err
	}
	g := &guarded{log: d.log}
	for one := make([]byte, 1); !bytes.HasSuffix(g.first, []byte("\n")); g.first = append(g.first, one...) {
		if _, err = io.ReadFull(c, one); err == nil && len(g.first) >= maxLine {
			err = errHostile
		}
		if err != nil {
			c.Close()
			return nil, err
		}
	}
	config := d.tls.Clone()
	config.ServerName, _, _ = net.SplitHostPort(address) // it was dialled
	secured := tls.Client(c, config)
	if err := secured.Handshake(); err != nil {
		c.Close()
		return nil, err
	}
	g.Conn = secured
	return g, c.SetDeadline(time.Time{})
}

// guarded is a connection that reads what the server sends before the client does.
type guarded struct {
	net.Conn
	log   zerolog.Logger
	first []byte // was read before TLS
	line  []byte // up to here
	left  int    // of a message, with its end
}

// end is that of a message.
const end = "\r\n"

// lasting begin the errors after which the client keeps the connection, or makes it again.
var lasting = []string{
	"permissions violation", "maximum subscriptions exceeded",
	"authorization violation", "user authentication expired", "user authentication revoked", "account authentication expired",
}

// said returns an error if a line is an error for which the client would give up for good.
func said(line []byte) error {
	if len(line) < 4 || !bytes.EqualFold(line[:4], []byte("-ERR")) {
		return nil
	}
	why := strings.Trim(strings.TrimSpace(string(line[4:])), "'") // as the client reads it
	if slices.ContainsFunc(lasting, func(begin string) bool { return strings.HasPrefix(strings.ToLower(why), begin) }) {
		return nil
	}
	return fmt.Errorf("the server ends the connection: %.200q", why)
}

// Read fails, and ends the connection, if the server sends more than it may.
func (g *guarded) Read(p []byte) (int, error) {
	if len(g.first) > 0 {
		n := copy(p, g.first)
		g.first = g.first[n:]
		return n, nil
	}
	n, err := g.Conn.Read(p)
	bad := g.check(p[:n])
	if bad == nil {
		return n, err
	}
	g.Conn.Close()
	if !errors.Is(bad, errHostile) {
		return 0, bad
	}
	g.log.Error().Err(bad).Msg("the connection to the bus is ended")
	return 0, io.ErrUnexpectedEOF
}

func (g *guarded) check(b []byte) error {
	for len(b) > 0 {
		if g.left > len(end) {
			n := min(g.left-len(end), len(b))
			g.left, b = g.left-n, b[n:]
			continue
		}
		if g.left > 0 { // the client would look for the end further on, and read what is left as lines
			if b[0] != end[len(end)-g.left] {
				return fmt.Errorf("%w: it sends a message that does not end where it should", errHostile)
			}
			g.left, b = g.left-1, b[1:]
			continue
		}
		part, rest, whole := bytes.Cut(b, []byte("\n"))
		if len(g.line)+len(part) > maxLine {
			return fmt.Errorf("%w: it sends a line of more than %d KiB", errHostile, maxLine>>10)
		}
		g.line = append(g.line, part...)
		if !whole {
			return nil
		}
		size, err := announced(g.line)
		if err == nil {
			err = said(g.line)
		}
		if err != nil {
			return err
		}
		g.line, g.left, b = g.line[:0], size, rest
	}
	return nil
}

// announced is how many bytes follow a line, its end included.
func announced(line []byte) (int, error) {
	fields := bytes.Fields(line)
	if len(fields) == 0 || !bytes.EqualFold(fields[0], []byte("MSG")) && !bytes.EqualFold(fields[0], []byte("HMSG")) {
		return 0, nil
	}
	size, err := strconv.ParseUint(string(fields[len(fields)-1]), 10, 63)
	if err != nil || size > maxPayload {
		return 0, fmt.Errorf("%w: it announces a message of %.20q bytes", errHostile, fields[len(fields)-1])
	}
	return int(size) + len(end), nil
}
