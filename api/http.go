package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Headers of every reply.
const (
	HeaderVersion = "Lineage-Version" // the daemon's version
	HeaderAPI     = "Lineage-Api"     // its Major
	HeaderRemote  = "Lineage-Remote"  // a link passes a request on: only some routes answer it
)

// DefaultSocket is where the host's daemon listens.
const DefaultSocket = "/run/lineage/lineage.sock"

// maxReply bounds what the client reads of one document, in bytes.
const maxReply = 256 << 20

// MaxWait bounds one Report call.
const MaxWait = 60 * time.Second

// MaxGrace bounds the grace of a session and of an end.
const MaxGrace = 10 * time.Minute

// MaxLimit bounds each limit of a session: ms are 278 years, bytes 8 TiB.
const MaxLimit = 1 << 43

// answerTime is how long a daemon has to answer Dial. It is enough for a daemon that
// systemd starts on this connection.
const answerTime = 5 * time.Second

// UnreachableError says that the daemon cannot be reached: no socket, no process behind it, no permission to connect,
// a connection that broke, or something that is not a lineage daemon. The command line exits with ExitUnreachable.
type UnreachableError struct {
	Socket string
	Err    error
	Asked  bool // the daemon may have read a request to change something
}

// ErrNotLineage is the Err of an UnreachableError whose socket is served by something
// else, or by a daemon whose replies are invalid.
var ErrNotLineage = errors.New("not a lineage daemon")

// ErrSilent is the Err of an UnreachableError whose daemon accepts connections
// and does not answer: it is stopped, or hangs.
var ErrSilent = fmt.Errorf("no answer within %v", answerTime)

func (e *UnreachableError) Error() string {
	const start = `start it as root with "lineage daemon" or "lineage run"`
	switch {
	case e.Asked:
		return fmt.Sprintf(`lost the daemon at %s: %v; it may have done what was asked: see "lineage ls", "lineage history" and "lineage status"`,
			e.Socket, e.Err)
	case errors.Is(e.Err, fs.ErrNotExist), errors.Is(e.Err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no daemon at %s; %s", e.Socket, start)
	case errors.Is(e.Err, fs.ErrPermission):
		return fmt.Sprintf("connect to %s: not permitted; run with sudo, or join the group that owns the socket", e.Socket)
	case errors.Is(e.Err, ErrNotLineage):
		return fmt.Sprintf("socket %s: %v; set LINEAGE_SOCKET to the daemon's", e.Socket, e.Err)
	case errors.Is(e.Err, ErrSilent):
		return fmt.Sprintf("the daemon at %s hangs or is stopped: %v; restart it", e.Socket, e.Err)
	}
	return fmt.Sprintf("lost the daemon at %s: %v; %s", e.Socket, e.Err, start)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

type client struct {
	socket string
	http   *http.Client
}

// Dial connects to the daemon that listens on the unix socket and asks for its version. A daemon of another Major is
// an *Error of CodeVersion, one that does not answer is ErrSilent. The Client is safe for concurrent use.
func Dial(ctx context.Context, socket string) (Client, error) {
	// The daemon counts connections; a client that waits for hours until a command ends should not use up one.
	c := newClient(socket, time.Second,
		func(ctx context.Context) (net.Conn, error) { return dialUnix(ctx, socket) })
	asking, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	opened, err := c.open(asking)
	if err != nil && asking.Err() != nil && ctx.Err() == nil { // in this order: ctx ends first
		err = c.unreachable(ErrSilent)
	}
	return opened, err
}

// DialOver is Dial over connections that connect makes; errors call the daemon name.
// ctx bounds how long it may take to answer.
func DialOver(ctx context.Context, name string,
	connect func(context.Context) (net.Conn, error)) (Client, error) {
	return newClient(name, time.Minute, connect).open(ctx)
}

func newClient(name string, idle time.Duration, connect func(context.Context) (net.Conn, error)) *client {
	return &client{name, &http.Client{
		Transport: &http.Transport{
			DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) },
			IdleConnTimeout:    idle,
			DisableCompression: true,
		},
		// The protocol has no redirects: following one could lead elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// open asks for the version, and closes the client if it cannot be used.
func (c *client) open(ctx context.Context) (Client, error) {
	v, err := c.Version(ctx)
	if err == nil && v.API != Major {
		err = c.otherMajor(strconv.Itoa(v.API), v.Version)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// How long, and how often, Dial tries again while the daemon's backlog is full.
const (
	crowdedFor   = 2 * time.Second
	crowdedPause = 5 * time.Millisecond
)

func dialUnix(ctx context.Context, socket string) (net.Conn, error) {
	for end := time.Now().Add(crowdedFor); ; {
		c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if !errors.Is(err, syscall.EAGAIN) || time.Now().After(end) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(crowdedPause):
		}
	}
}

func (c *client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

func (c *client) otherMajor(major, version string) error {
	return NewError(CodeVersion,
		fmt.Sprintf("the daemon at %s (version %s) speaks API %s, this command speaks API %d",
			c.socket, version, major, Major),
		"use the command and the daemon of the same version")
}

func (c *client) unreachable(err error) error { return &UnreachableError{Socket: c.socket, Err: err} }

// lost is unreachable for a request that may have been sent.
func (c *client) lost(method string, err error) error {
	op, ok := errors.AsType[*net.OpError](err)
	return &UnreachableError{c.socket, err, method != http.MethodGet && !(ok && op.Op == "dial")}
}

func (c *client) foreign(format string, args ...any) error {
	return c.unreachable(fmt.Errorf("%w: %s", ErrNotLineage, fmt.Sprintf(format, args...)))
}

// do sends one request and returns the reply, in one of the accepted encodings, if it is a 2xx; the caller
// closes its body.
func (c *client) do(ctx context.Context, method, path string, query url.Values, body any,
	accept ...string) (*http.Response, error) {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		r = bytes.NewReader(b)
	}
	u := url.URL{Scheme: "http", Host: "lineage", Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), r)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if r != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, encoding := range accept {
		req.Header.Add("Accept-Encoding", encoding)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		// The daemon hung up. net/http has another error, without a name, if it noticed that before it had sent
		// the request.
		if strings.HasSuffix(err.Error(), "server closed idle connection") {
			err = io.EOF
		}
		if errors.As(err, new(net.Error)) || errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil, c.lost(method, err)
		}
		return nil, c.foreign("%v", err)
	}
	if err := c.check(resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

func (c *client) check(resp *http.Response) error {
	if resp.StatusCode == http.StatusRequestHeaderFieldsTooLarge { // net/http's own reply, without our headers
		return NewError(CodeTooLarge, "headers of more than 8 KiB", "")
	}
	major := resp.Header.Get(HeaderAPI)
	if major == "" {
		return c.foreign("its reply has no %s header", HeaderAPI)
	}
	if major != strconv.Itoa(Major) {
		return c.otherMajor(major, resp.Header.Get(HeaderVersion))
	}
	if resp.StatusCode/100 == 2 {
		return nil
	}
	var doc ErrorDocument
	if err := c.decode(resp, &doc); err != nil {
		return err
	}
	if doc.Error == nil || doc.Error.Message == "" {
		return c.foreign("status %d without an error", resp.StatusCode)
	}
	if doc.Error.Exit <= ExitOK || doc.Error.Exit > ExitTimedOut {
		doc.Error.Exit = max(codes[doc.Error.Code].exit, ExitFailed)
	}
	return doc.Error
}

func (c *client) decode(resp *http.Response, doc any) error {
	body := &io.LimitedReader{R: resp.Body, N: maxReply}
	err := json.NewDecoder(body).Decode(doc)
	switch {
	case err == nil:
		// Reading to the end lets the connection be used again.
		io.Copy(io.Discard, io.LimitReader(body, 4096))
		return nil
	case body.N == 0:
		return c.foreign("reply of more than %d MiB", maxReply>>20)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(net.Error)):
		return c.lost(resp.Request.Method, err)
	}
	return c.foreign("malformed reply: %v", err)
}

func fetch[T any](c *client, ctx context.Context, method, path string, query url.Values, body any) (*T, error) {
	resp, err := c.do(ctx, method, path, query, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	doc := new(T)
	if err := c.decode(resp, doc); err != nil {
		return nil, err
	}
	return doc, nil
}

func (c *client) Version(ctx context.Context) (*Version, error) {
	return fetch[Version](c, ctx, http.MethodGet, "/v1/version", nil, nil)
}

func (c *client) Status(ctx context.Context) (*Status, error) {
	return fetch[Status](c, ctx, http.MethodGet, "/v1/status", nil, nil)
}

func (c *client) Sessions(ctx context.Context, state, name string) (*Sessions, error) {
	return fetch[Sessions](c, ctx, http.MethodGet, "/v1/sessions", values("state", state, "name", name), nil)
}

func (c *client) Create(ctx context.Context, req NewSession) (*Session, error) {
	return fetch[Session](c, ctx, http.MethodPost, "/v1/sessions", nil, req)
}

func (c *client) Keep(ctx context.Context, req KeepRequest) (*Session, error) {
	return fetch[Session](c, ctx, http.MethodPost, "/v1/keep", nil, req)
}

func (c *client) Session(ctx context.Context, s string) (*Session, error) {
	return ofSession[Session](c, ctx, http.MethodGet, s, "", nil, nil)
}

func (c *client) Tree(ctx context.Context, s, dead string) (*Tree, error) {
	return ofSession[Tree](c, ctx, http.MethodGet, s, "/tree", values("dead", dead), nil)
}

func (c *client) End(ctx context.Context, s string, req EndRequest) (*Report, error) {
	return ofSession[Report](c, ctx, http.MethodPost, s, "/end", nil, req)
}

func (c *client) Pause(ctx context.Context, s string) (*Session, error) {
	return ofSession[Session](c, ctx, http.MethodPost, s, "/pause", nil, nil)
}

func (c *client) Resume(ctx context.Context, s string) (*Session, error) {
	return ofSession[Session](c, ctx, http.MethodPost, s, "/resume", nil, nil)
}

func (c *client) Report(ctx context.Context, s string, wait time.Duration) (*Report, error) {
	return ofSession[Report](c, ctx, http.MethodGet, s, "/report", waiting(wait), nil)
}

func (c *client) Command(ctx context.Context, s SignedCommand) (*CommandReply, error) {
	return fetch[CommandReply](c, ctx, http.MethodPost, "/v1/commands", nil, s)
}

func (c *client) CommandReceipt(ctx context.Context, id string, wait time.Duration) (*CommandReply, error) {
	return fetch[CommandReply](c, ctx, http.MethodGet, "/v1/commands/"+url.PathEscape(id), waiting(wait), nil)
}

func (c *client) Process(ctx context.Context, ref string) (*Process, error) {
	return ofProcess[Process](c, ctx, http.MethodGet, ref, "", nil)
}

func (c *client) Kill(ctx context.Context, ref string, req KillRequest) (*Killed, error) {
	return ofProcess[Killed](c, ctx, http.MethodPost, ref, "/kill", req)
}

func (c *client) PlanBranch(ctx context.Context, ref, call string) (*Plan, error) {
	return ofProcess[Plan](c, ctx, http.MethodPost, ref, "/plan", PlanRequest{call})
}

func (c *client) EndBranch(ctx context.Context, ref string, req EndRequest) (*Report, error) {
	return ofProcess[Report](c, ctx, http.MethodPost, ref, "/end", req)
}

func ofProcess[T any](c *client, ctx context.Context, method, ref, what string, body any) (*T, error) {
	r, err := ParseRef(ref)
	if err != nil {
		return nil, NewError(CodeBadRequest, err.Error(), "")
	}
	return fetch[T](c, ctx, method, "/v1/processes/"+r.String()+what, nil, body)
}

func (c *client) Why(ctx context.Context, ref string) (*Why, error) {
	return fetch[Why](c, ctx, http.MethodGet, "/v1/why", values("ref", ref), nil)
}

func (c *client) WhyPort(ctx context.Context, proto string, port int) (*Holders, error) {
	return fetch[Holders](c, ctx, http.MethodGet, "/v1/why",
		values("port", strconv.Itoa(port), "proto", proto), nil)
}

func (c *client) WhyPath(ctx context.Context, f PathRef) (*Holders, error) {
	q := values("path", f.Path)
	if f.Inode != 0 {
		q.Set("device", strconv.FormatUint(f.Device, 10))
		q.Set("inode", strconv.FormatUint(f.Inode, 10))
	}
	return fetch[Holders](c, ctx, http.MethodGet, "/v1/why", q, nil)
}

func (c *client) Plan(ctx context.Context, s string) (*Plan, error) {
	return ofSession[Plan](c, ctx, http.MethodPost, s, "/plan", nil, nil)
}

func (c *client) Halt(ctx context.Context, req HaltRequest) (*Halted, error) {
	return fetch[Halted](c, ctx, http.MethodPost, "/v1/halt", nil, req)
}

func (c *client) Stop(ctx context.Context, unload, force bool) error {
	_, err := fetch[Head](c, ctx, http.MethodPost, "/v1/daemon/stop", nil, StopRequest{unload, force})
	return err
}

// StopRequest is the body of POST /v1/daemon/stop.
type StopRequest struct {
	Unload bool `json:"unload,omitempty"` // take the programs out of the kernel as well
	Force  bool `json:"force,omitempty"`  // unload with live sessions; their processes keep running, untracked
}

// ofSession sends a request about a session. A word that cannot be an id or a name is
// not sent: it would change the path.
func ofSession[T any](c *client, ctx context.Context, method, s, what string,
	query url.Values, body any) (*T, error) {
	if !IsSessionWord(s) {
		return nil, NewError(CodeNotFound, fmt.Sprintf("session %q not found", s), "")
	}
	return fetch[T](c, ctx, method, "/v1/sessions/"+s+what, query, body)
}
