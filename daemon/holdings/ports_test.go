//go:build linux

package holdings_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// listenToStdin is what lngtest-server does: it listens, says its port, and closes it and
// exits at the end of its stdin.
func listenToStdin() int {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	io.Copy(io.Discard, os.Stdin)
	l.Close()
	time.Sleep(10 * time.Millisecond)
	return 0
}

// listenAndPass is what lngtest-passer does: it listens, and passes the socket to the process that listens at path.
func listenAndPass(path string) int {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		return 1
	}
	to, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return 1
	}
	if _, _, err := to.WriteMsgUnix([]byte("x"), unix.UnixRights(int(f.Fd())), nil); err != nil {
		return 1
	}
	return 0
}

func receiveListener(t *testing.T, conn *net.UnixConn) net.Listener {
	t.Helper()
	data, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(data, oob)
	require.NoError(t, err)
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		t.Fatalf("%v %v", messages, err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	require.NoError(t, err)
	f := os.NewFile(uintptr(fds[0]), "passed")
	defer f.Close()
	l, err := net.FileListener(f)
	require.NoError(t, err)
	return l
}

// TestRealPorts: a server's port is known as soon as it listens, and reported with its process. It is
// not in the receipt if the server closed it before its exit began the end. No read of procfs is needed.
func TestRealPorts(t *testing.T) {
	ctx := t.Context()
	c := new(daemontest.Real).Serve(t)
	s, port, in, cmd := listening(t, c, "exec /proc/%d/exe lngtest-server")
	now, err := c.Session(ctx, s.ID)
	if err != nil || !slices.Equal(now.Ports, []int{port}) {
		t.Errorf("while it listens: %v %v, want %d", now, err, port)
	}
	in.Close()
	r := daemontest.Receipt(t, c, s.ID)
	if len(r.PortsFreed) != 0 || len(r.PortsBusy) != 0 {
		t.Errorf("freed %+v, busy %+v, want none", r.PortsFreed, r.PortsBusy)
	}
	var reported []string
	err = c.Events(ctx, api.EventsQuery{Session: s.ID, Types: []api.EventType{"listen", "unlisten"}, Since: time.Now().Add(-time.Minute)}, func(ev *api.Event) error {
		if ev.Kind == "event" && ev.Type != "lost" {
			reported = append(reported, fmt.Sprintf("%s %s %s:%d by %d", ev.Type, ev.Port.Proto, ev.Port.Addr, ev.Port.Port, ev.Process.PID))
		}
		return nil
	})
	want := fmt.Sprintf(" tcp 127.0.0.1:%d by %d", port, cmd.Process.Pid)
	if err != nil || !slices.Equal(reported, []string{"listen" + want, "unlisten" + want}) {
		t.Errorf("reported %s %v, want%s", strings.Join(reported, ", "), err, want)
	}
}

// TestRealPortBusy: a port whose socket a member passed on is busy, and the receipt names the process
// that has it. The socket is closed by that one.
func TestRealPortBusy(t *testing.T) {
	c := new(daemontest.Real).Serve(t)
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	defer l.Close()
	s, _, _, _ := daemontest.Blocked(t, c, "lngtest", fmt.Sprintf("exec /proc/%d/exe lngtest-passer %s", os.Getpid(), path))
	conn, err := l.AcceptUnix()
	require.NoError(t, err)
	defer conn.Close()
	passed := receiveListener(t, conn)
	defer passed.Close()
	port := passed.Addr().(*net.TCPAddr).Port
	r := daemontest.Receipt(t, c, s.ID)
	if len(r.PortsFreed) != 0 || len(r.PortsBusy) != 1 || r.PortsBusy[0].Port != port || r.PortsBusy[0].PID != os.Getpid() {
		t.Errorf("freed %+v, busy %+v, want %d of %d", r.PortsFreed, r.PortsBusy, port, os.Getpid())
	}
}

// TestWhyPortTold: the answer names a member that procfs does not show as the holder of a socket.
func TestWhyPortTold(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{})
	w.K.Listen(100, 1, "127.0.0.1:80")
	d := daemontest.Get[api.Holders](w, "user", "/v1/why?port=80")
	if len(d.Items) != 1 || d.Items[0].Process.PID != 100 || d.Items[0].Session == nil || d.Items[0].Session.ID != s.ID || d.Items[0].Holds.Ports[0].Port != 80 {
		t.Errorf("%+v", d)
	}
	w.Do("else", "GET", "/v1/why?port=80", nil).Refused(api.CodeDenied)
	w.Do("user", "GET", "/v1/why?port=80&proto=udp", nil).Refused(api.CodeNotFound)
	w.K.Unlisten(1)
	w.Do("user", "GET", "/v1/why?port=80", nil).Refused(api.CodeNotFound)
	w.Fork(100, 101, 1000, "lngtest-dead")
	w.K.Listen(101, 2, "127.0.0.1:81")
	w.K.Exit(101, 0) // the socket lives on elsewhere
	w.Do("user", "GET", "/v1/why?port=81", nil).Refused(api.CodeNotFound)
}
