//go:build linux

package daemon

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
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/instance"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"github.com/rs/zerolog"
)

// world is a daemon over a kernel made of Go, served on a real socket. Callers are
// distinguished by the address that they bind.
type world struct {
	*testing.T
	k      *kerneltest.Kernel
	gates  gates
	h      host
	dir    string
	socket string
	i      instance.Instance
	s      *service
	stop   func() error
	done   <-chan error // why it stopped
	conns  atomic.Int64
	// readers are the PIDs of callers in the group that reads everything.
	readers sync.Map
	o       Options // of the first start
}

// The PIDs of the callers, all children of the shell 20.
const (
	shell   = 20
	rootPID = 21 // uid 0
	userPID = 22 // uid 1000
	elsePID = 23 // uid 1001
	readPID = 24 // uid 1002, in the group that reads everything
	awayPID = 25 // uid 0, in another PID namespace
	hidePID = 26 // uid 0, in a PID namespace that cannot be read
	grouped = 777
)

var callers = map[string]uint32{"root": rootPID, "user": userPID, "else": elsePID, "reader": readPID, "away": awayPID, "hidden": hidePID}

type worldOption func(*world)

func newWorld(t *testing.T, options ...worldOption) *world {
	t.Helper()
	w := &world{T: t, k: kerneltest.New(), dir: t.TempDir()}
	w.socket = filepath.Join(w.dir, "s")
	proc := procfs.FS(filepath.Join(w.dir, "proc"))
	w.h = host{
		manager: &instance.Manager{},
		open:    func(tracer.Options) (kernel, error) { w.k.Reopen(); return &fenced{w.k, &w.gates}, nil },
		unload:  func(string) error { return os.WriteFile(filepath.Join(w.dir, "unloaded"), nil, 0o600) },
		proc:    proc, group: grouped, peerOf: w.peerOf,
		hold: func(pid uint32) (enforcer.Handle, error) { return w.k.Hold(pid) },
		clock: registry.Clock{
			Monotonic: w.k.Now, Boottime: func() uint64 { return uint64(w.k.Now()) },
			Clock: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
		},
		limits: defaultLimits, period: time.Hour,
	}
	w.host(uint32(os.Getpid()), 1, 0, "lngtest-daemon")
	w.host(shell, 1, 0, "lngtest-shell")
	w.readers.Store(uint32(readPID), true)
	for name, pid := range callers {
		w.host(pid, shell, map[string]uint32{"user": 1000, "else": 1001, "reader": 1002}[name], "lngtest-"+name)
	}
	for _, o := range options {
		o(w)
	}
	w.o.Version = "9.9.9"
	w.start(w.o)
	t.Cleanup(func() { w.stop() })
	return w
}

// start serves; stop may be called again after it.
func (w *world) start(o Options) {
	w.Helper()
	o.Socket = w.socket
	ctx, cancel := context.WithCancel(context.Background())
	i, err := instance.Of(w.socket)
	if err != nil {
		w.Fatal(err)
	}
	w.i = i
	if err := i.Prepare(); err != nil {
		w.Fatal(err)
	}
	k, err := w.h.open(tracer.Options{})
	if err != nil {
		w.Fatal(err)
	}
	r, err := loadRules(i, o, w.h.clock)
	if err != nil {
		w.Fatal(err)
	}
	s, ln, err := w.h.prepare(k, i, o, r, nil, zerolog.Nop())
	if err != nil {
		w.Fatal(err)
	}
	if s.alone, err = i.HoldPIDFile(ctx, o.Ephemeral != 0); err != nil {
		w.Fatal(err)
	}
	w.s = s
	applied := make(chan struct{}, len(s.jobs))
	for n, job := range s.jobs {
		s.jobs[n] = func(ctx context.Context) {
			job(ctx)
			applied <- struct{}{}
		}
	}
	done := make(chan error, 1)
	go func() {
		lock, unload, err := s.run(ctx, ln.UnixListener, i)
		if unload {
			err = w.h.unload("")
		}
		lock.Release()
		s.alone.Release()
		ln.Remove()
		done <- err
		close(done)
	}()
	w.done, w.stop = done, func() error { cancel(); return <-done }
	// Only one job returns before the daemon stops: it applies the policy to what runs
	// already, which is not to be what the test starts.
	<-applied
}

// host adds a process that procfs shows too.
func (w *world) host(pid, parent, uid uint32, comm string) {
	w.k.Add(pid, parent, comm)
	w.k.Edit(pid, func(p *kerneltest.Proc) { p.UID = uid })
	w.proc(pid, parent, uid, comm)
}

// statOf is a process's stat as procfs has it.
func statOf(pid uint32, comm, state string, parent uint32) string {
	return fmt.Sprintf("%d (%s) %s %d 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0", pid, comm, state, parent)
}

func (w *world) proc(pid, parent, uid uint32, comm string) {
	p := w.h.proc
	for name, text := range map[string]string{
		"stat":    statOf(pid, "a) R 1", "S", parent),
		"status":  fmt.Sprintf("Name:\t%s\nTgid:\t%d\nTracerPid:\t0\nUid:\t%d\t%d\t%d\t%d\nNSpid:\t%d\t7\n", comm, pid, uid, uid, uid, uid, pid),
		"comm":    comm + "\n",
		"cmdline": comm + "\x00--flag\x00",
		"cgroup":  "0::/lngtest\n",
	} {
		path := p.Path(pid, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			w.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			w.Fatal(err)
		}
	}
	os.Symlink("/bin/"+comm, p.Path(pid, "exe"))
	os.Symlink("/lngtest-cwd", p.Path(pid, "cwd"))
}

// peerOf reads the caller from the address that the client bound: KIND or a PID.
func (w *world) peerOf(c net.Conn) (access.Peer, error) {
	who, _, _ := strings.Cut(filepath.Base(c.RemoteAddr().String()), "-")
	pid, ok := callers[who]
	if !ok {
		n, err := strconv.ParseUint(who, 10, 32)
		if err != nil {
			n = rootPID
		}
		pid = uint32(n)
	}
	p := access.Peer{PID: pid, PIDFD: -1, GID: 100, Away: pid == awayPID}
	if _, is := w.readers.Load(pid); is {
		p.Groups = []uint32{grouped}
	}
	if pid == hidePID {
		p.Hidden = errors.New("read fdinfo: lngtest")
	}
	if proc := w.k.Proc(pid); proc != nil {
		p.UID = proc.UID
	}
	return p, nil
}

func (w *world) dial(who string) (net.Conn, error) {
	local := filepath.Join(w.dir, fmt.Sprintf("%s-%d", who, w.conns.Add(1)))
	return (&net.Dialer{LocalAddr: &net.UnixAddr{Name: local, Net: "unix"}}).Dial("unix", w.socket)
}

// reply is the answer to a request.
type answered struct {
	*testing.T
	status int
	header http.Header
	body   []byte
}

// do makes one request as a kind of caller or a PID, once the daemon has read all
// events of the kernel.
func (w *world) do(who, method, path string, body any) answered {
	w.Helper()
	w.k.AllRead()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			w.Fatal(err)
		}
		r = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(w.Context(), api.MaxWait+patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://lineage"+path, r)
	if err != nil {
		w.Fatal(err)
	}
	resp, err := w.client(who).Do(req)
	if err != nil {
		w.Fatalf("%s %s %s: %v", who, method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return answered{w.T, resp.StatusCode, resp.Header, text}
}

// open begins to read a stream; the test's end closes it too.
func (w *world) open(who, path string) (scan *bufio.Scanner, closeIt func()) {
	w.Helper()
	w.k.AllRead()
	ctx, cancel := context.WithCancel(w.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://lineage"+path, nil)
	if err != nil {
		w.Fatal(err)
	}
	resp, err := w.client(who).Do(req)
	if err != nil {
		w.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		w.Fatalf("status %d: %s", resp.StatusCode, b)
	}
	closeIt = func() { cancel(); resp.Body.Close() }
	w.Cleanup(closeIt)
	return bufio.NewScanner(resp.Body), closeIt
}

// client sends requests as a kind of caller, over a connection of its own for each.
func (w *world) client(who string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return w.dial(who) },
	}}
}

// into checks the status and returns the document.
func into[T any](a answered, status int) *T {
	a.Helper()
	if a.status != status {
		a.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	doc := new(T)
	if err := json.Unmarshal(a.body, doc); err != nil {
		a.Fatalf("%v: %s", err, a.body)
	}
	return doc
}

// refused checks that the request was refused, with the code.
func (a answered) refused(code string) *api.Error {
	a.Helper()
	var doc api.ErrorDocument
	if err := json.Unmarshal(a.body, &doc); err != nil || doc.Error == nil {
		a.Fatalf("status %d is no refusal: %s", a.status, a.body)
	}
	if doc.Error.Code != code || a.status != api.NewError(code, "", "").Status() || doc.Kind != "error" {
		a.Fatalf("status %d, %s; want %s", a.status, a.body, code)
	}
	return doc.Error
}

// session opens a session over a new child of the caller.
func (w *world) session(who string, pid uint32, req api.NewSession) *api.Session {
	w.Helper()
	caller := w.caller(who)
	w.host(pid, caller, w.k.Proc(caller).UID, "lngtest-root")
	req.Root = api.Ref{PID: int(pid)}
	return into[api.Session](w.do(who, "POST", "/v1/sessions", req), http.StatusCreated)
}

func (w *world) caller(who string) uint32 {
	if pid, ok := callers[who]; ok {
		return pid
	}
	n, err := strconv.ParseUint(who, 10, 32)
	if err != nil {
		w.Fatal(err)
	}
	return uint32(n)
}

// receipt waits for the verdict.
func (w *world) receipt(id string) *api.Report {
	w.Helper()
	return into[api.Report](w.do("root", "GET", "/v1/sessions/"+id+"/report?wait=60s", nil), http.StatusOK)
}

func ms(n int64) *int64 { return &n }

// id returns the kernel's id of a session.
func (w *world) id(name string) (id tracer.SessionID) {
	w.Helper()
	all, err := w.k.Sessions()
	if err != nil {
		w.Fatal(err)
	}
	for _, s := range all {
		if s.ID.String() == name {
			return s.ID
		}
	}
	w.Fatalf("no session %s", name)
	return 0
}

// patience bounds every wait of these tests; reaching it is a failure.
var patience = tracertest.Slowed(30 * time.Second)

// until tries again until the condition holds.
func (w *world) until(holds func() bool) {
	w.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("the condition of this line does not hold after %v", patience)
		}
	}
}

// bound closes a stream that has not brought what is read from it in time. The
// result ends the wait, and the test if the stream was closed.
func bound(t *testing.T, closeIt func()) (over func()) {
	t.Helper()
	late := time.AfterFunc(patience, closeIt)
	return func() {
		t.Helper()
		if !late.Stop() {
			t.Fatalf("the stream has not brought it after %v", patience)
		}
	}
}

// hold stops the reader of the events while f runs.
func (w *world) hold(f func()) {
	w.gates.reading.Lock()
	defer w.gates.reading.Unlock()
	f()
}

// gates can keep the daemon from its kernel.
type gates struct {
	reading sync.Mutex   // held: events that were read do not arrive
	looking sync.RWMutex // held while all processes are walked over
}

type fenced struct {
	*kerneltest.Kernel
	gates *gates
}

func (g *fenced) Read(ev *tracer.Event) error {
	err := g.Kernel.Read(ev)
	g.gates.reading.Lock()
	defer g.gates.reading.Unlock()
	return err
}

func (g *fenced) Snapshot(id tracer.SessionID, each func(*tracer.Process) error) error {
	if id == 0 {
		g.gates.looking.RLock()
		defer g.gates.looking.RUnlock()
	}
	return g.Kernel.Snapshot(id, each)
}
