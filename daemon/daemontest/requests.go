//go:build linux

package daemontest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// Dial connects as a kind of caller or a PID.
func (d *Daemon) Dial(who string) (net.Conn, error) {
	local := filepath.Join(d.Dir, fmt.Sprintf("%s-%d", who, d.conns.Add(1)))
	return (&net.Dialer{LocalAddr: &net.UnixAddr{Name: local, Net: "unix"}}).Dial("unix", d.Socket)
}

// Reply is the answer to a request.
type Reply struct {
	*testing.T
	Status int
	Header http.Header
	Body   []byte
}

// Do makes one request as a kind of caller or a PID, once the daemon has read all
// events of the kernel.
func (d *Daemon) Do(who, method, path string, body any) Reply {
	d.Helper()
	d.K.AllRead()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		require.NoError(d, err)
		r = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(d.Context(), api.MaxWait+require.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://lineage"+path, r)
	require.NoError(d, err)
	resp, err := d.Client(who).Do(req)
	if err != nil {
		d.Fatalf("%s %s %s: %v", who, method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(d, err)
	return Reply{d.T, resp.StatusCode, resp.Header, text}
}

// Open begins to read a stream; the test's end closes it too.
func (d *Daemon) Open(who, path string) (scan *bufio.Scanner, closeIt func()) {
	d.Helper()
	d.K.AllRead()
	ctx, cancel := context.WithCancel(d.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://lineage"+path, nil)
	require.NoError(d, err)
	resp, err := d.Client(who).Do(req)
	require.NoError(d, err)
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		d.Fatalf("status %d: %s", resp.StatusCode, b)
	}
	closeIt = func() { cancel(); resp.Body.Close() }
	d.Cleanup(closeIt)
	return bufio.NewScanner(resp.Body), closeIt
}

// Client sends requests as a kind of caller, over a connection of its own for each.
func (d *Daemon) Client(who string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return d.Dial(who) },
	}}
}

// Into checks the status and returns the document.
func Into[T any](a Reply, status int) *T {
	a.Helper()
	if a.Status != status {
		a.Fatalf("status %d, want %d: %s", a.Status, status, a.Body)
	}
	doc := new(T)
	if err := json.Unmarshal(a.Body, doc); err != nil {
		a.Fatalf("%v: %s", err, a.Body)
	}
	return doc
}

// Get returns a document.
func Get[T any](d interface {
	Helper()
	Do(who, method, path string, body any) Reply
}, who, path string) *T {
	d.Helper()
	return Into[T](d.Do(who, "GET", path, nil), http.StatusOK)
}

// Refused checks that the request was refused, with the code.
func (a Reply) Refused(code string) *api.Error {
	a.Helper()
	var doc api.ErrorDocument
	if err := json.Unmarshal(a.Body, &doc); err != nil || doc.Error == nil {
		a.Fatalf("status %d is not a refusal: %s", a.Status, a.Body)
	}
	if doc.Error.Code != code || a.Status != api.NewError(code, "", "").Status() || doc.Kind != "error" {
		a.Fatalf("status %d, %s; want %s", a.Status, a.Body, code)
	}
	return doc.Error
}

// Session opens a session over a new child of the caller.
func (d *Daemon) Session(who string, pid uint32, req api.NewSession) *api.Session {
	d.Helper()
	caller := d.Caller(who)
	d.Add(pid, caller, d.K.Proc(caller).UID, "lngtest-root")
	req.Root = api.Ref{PID: int(pid)}
	return Into[api.Session](d.Do(who, "POST", "/v1/sessions", req), http.StatusCreated)
}

// Keep asks to keep processes for an hour.
func (d *Daemon) Keep(who string, pids ...uint32) Reply {
	d.Helper()
	req := api.KeepRequest{Reason: "shared cache", Until: time.Now().Add(time.Hour)}
	for _, pid := range pids {
		req.Refs = append(req.Refs, d.RefOf(pid))
	}
	return d.Do(who, "POST", "/v1/keep", req)
}

// Adopt asks for a session over a running process.
func (d *Daemon) Adopt(who string, pid uint32) Reply {
	d.Helper()
	return d.Do(who, "POST", "/v1/sessions", api.NewSession{Adopt: true, Root: api.Ref{PID: int(pid)}})
}

// Caller is the PID of a kind of caller.
func (d *Daemon) Caller(who string) uint32 {
	d.Helper()
	pid, err := pidOf(who)
	require.NoError(d, err)
	return pid
}

// peerOf reads the caller from the address that the client bound: KIND or a PID.
func (d *Daemon) peerOf(c net.Conn) (access.Peer, error) {
	who, _, _ := strings.Cut(filepath.Base(c.RemoteAddr().String()), "-")
	pid, err := pidOf(who)
	if err != nil {
		pid = Root
	}
	p := access.Peer{PID: pid, PIDFD: -1, GID: 100, Away: pid == Away}
	if _, is := d.Readers.Load(pid); is {
		p.Groups = []uint32{grouped}
	}
	if pid == Hidden {
		p.Hidden = errors.New("read fdinfo: lngtest")
	}
	if proc := d.K.Proc(pid); proc != nil {
		p.UID = proc.UID
	}
	return p, nil
}

func pidOf(who string) (uint32, error) {
	if pid, ok := Callers[who]; ok {
		return pid, nil
	}
	n, err := strconv.ParseUint(who, 10, 32)
	return uint32(n), err
}

// Receipt waits for the verdict.
func (d *Daemon) Receipt(id string) *api.Report {
	d.Helper()
	return Into[api.Report](d.Do("root", "GET", "/v1/sessions/"+id+"/report?wait=60s", nil), http.StatusOK)
}

// End ends a session at once, and waits for the verdict.
func (d *Daemon) End(who, id string) *api.Report {
	d.Helper()
	Into[api.Report](d.Do(who, "POST", "/v1/sessions/"+id+"/end", api.EndRequest{Now: true}), http.StatusAccepted)
	return d.Receipt(id)
}

// MS is a number of milliseconds in a request.
func MS(n int64) *int64 { return &n }

// Bound closes a stream that has not brought what is read from it in time. The
// result ends the wait, and the test if the stream was closed.
func Bound(t *testing.T, closeIt func()) (over func()) {
	t.Helper()
	late := time.AfterFunc(require.Patience, closeIt)
	return func() {
		t.Helper()
		if !late.Stop() {
			t.Fatalf("the stream has not brought it after %v", require.Patience)
		}
	}
}

// Policy is the policy in force.
func (d *Daemon) Policy() *api.Policy {
	d.Helper()
	return Into[api.Policy](d.Do("root", "GET", "/v1/policy", nil), http.StatusOK)
}

// Reload writes the policy file and has the daemon read it.
func (d *Daemon) Reload(text string) *api.Policy {
	d.Helper()
	d.WritePolicy(text)
	return Into[api.Policy](d.Do("root", "POST", "/v1/policy/reload", nil), http.StatusOK)
}

// Status is the status that root sees.
func (d *Daemon) Status() *api.Status {
	d.Helper()
	return Into[api.Status](d.Do("root", "GET", "/v1/status", nil), http.StatusOK)
}

// Degraded reports whether the status names that as what is wrong.
func (d *Daemon) Degraded(what string) bool {
	d.Helper()
	return slices.ContainsFunc(d.Status().Degraded, func(why string) bool { return strings.Contains(why, what) })
}

// Outcomes are those of a receipt, by PID.
func Outcomes(r *api.Report) map[int]api.OutcomeKind {
	all := make(map[int]api.OutcomeKind)
	for _, o := range r.Processes {
		all[o.PID] = o.Outcome
	}
	return all
}

// Raw sends bytes and reads the reply, as a kind of caller.
func (d *Daemon) Raw(who, request string) (Reply, net.Conn) {
	d.Helper()
	d.K.AllRead()
	c, err := d.Dial(who)
	require.NoError(d, err)
	go io.WriteString(c, request)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		c.Close()
		d.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(d, err)
	return Reply{T: d.T, Status: resp.StatusCode, Header: resp.Header, Body: b}, c
}
