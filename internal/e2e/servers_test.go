//go:build linux

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// goServer is what lngtest-serve does: a server in Go.
func goServer() int {
	if _, err := net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return 1
	}
	time.Sleep(time.Minute)
	return 0
}

// aServer is a program that listens on a TCP port of 127.0.0.1.
type aServer struct {
	name string
	args []string
}

// servers are the server programs that this host has.
func servers(t *testing.T, dir string) (all []aServer) {
	t.Helper()
	port := func() string { // nginx and redis cannot let the kernel choose one
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	}
	conf := fmt.Sprintf("daemon off; pid %s/nginx.pid; error_log stderr; events {} http { access_log off; server { listen 127.0.0.1:%s; } }", dir, port())
	require.NoError(t, os.WriteFile(dir+"/nginx.conf", []byte(conf), 0o600))
	for _, s := range []aServer{
		{"go", []string{"/proc/self/exe", "lngtest-serve"}},
		{"python3", []string{"python3", "-c", "import socket,time; s=socket.create_server(('127.0.0.1',0)); time.sleep(60)"}},
		{"node", []string{"node", "-e", "require('http').createServer().listen(0,'127.0.0.1'); setTimeout(()=>{},60000)"}},
		{"nginx", []string{"nginx", "-p", dir, "-c", dir + "/nginx.conf"}},
		{"redis", []string{"redis-server", "--port", port(), "--bind", "127.0.0.1", "--save", "", "--dir", dir}},
		{"C", []string{stage.Program("port"), "0"}},
	} {
		if s.name == "go" {
			exe, err := os.Executable()
			require.NoError(t, err)
			s.args[0] = exe
		}
		if _, err := exec.LookPath(s.args[0]); err == nil {
			all = append(all, s)
		}
	}
	return all
}

// others starts processes outside of every session, and load processes that each use a CPU.
func others(t *testing.T, i *stage.Instance, processes, load int) {
	t.Helper()
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do sleep 600 & i=$((i+1)); done; echo up; wait", processes)
	crowd := exec.Command("timeout", "-k", "1", "600", "sh", "-c", script)
	out, err := crowd.StdoutPipe()
	if err == nil {
		err = crowd.Start()
	}
	require.NoError(t, err)
	t.Cleanup(func() { // timeout passes the signal on to all
		_ = crowd.Process.Signal(unix.SIGTERM)
		_ = crowd.Wait()
	})
	_, err = io.ReadFull(out, make([]byte, 3))
	require.NoError(t, err)
	m := stage.NewMarker(t, i.Dir)
	for n := range load {
		burn := exec.Command(stage.Program("burn"), strconv.Itoa(n%runtime.NumCPU()))
		burn.Env = append(os.Environ(), m.Env()...)
		stage.Start(t, burn)
	}
}

// heard is the first event of a session's port, and how late it arrived.
type heard struct {
	port int
	late time.Duration
}

// Servers that listened for 0.2 to 6 s before their session ended: each port is reported at once, and is
// in the receipt.
func TestServers(t *testing.T) {
	const processes = 700
	count, load := stage.FromEnv(t, "LNGTEST_SERVERS", 4), 0
	limit := time.Second // other work uses this machine too
	if os.Getenv("LNGTEST_SERVERS") != "" {
		limit = 100 * time.Millisecond
	}
	if os.Getenv("LNGTEST_LOAD") != "" {
		load = stage.FromEnv(t, "LNGTEST_LOAD", 0)
	}
	i := stage.NewDaemon(t)
	others(t, i, processes, load)
	c, err := api.Dial(t.Context(), i.Socket)
	require.NoError(t, err)
	defer c.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ports := make(chan map[string]heard, 1)
	ports <- map[string]heard{}
	go c.Events(ctx, api.EventsQuery{Types: []api.EventType{"listen"}, From: 1}, func(ev *api.Event) error {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
			return err
		}
		all := <-ports
		if _, known := all[ev.Session]; !known && ev.Port != nil && ev.Port.Port != 0 {
			all[ev.Session] = heard{ev.Port.Port, time.Duration(now.Nano() - int64(ev.TimeNS))}
		}
		ports <- all
		return nil
	})
	kinds := servers(t, i.Dir)
	if len(kinds) < 3 {
		t.Fatalf("only %v here", kinds)
	}
	var late []time.Duration
	found := 0
	for n := range count {
		kind, listens := kinds[n%len(kinds)], []time.Duration{200, 500, 1000, 2000, 6000}[n%5]*time.Millisecond
		name := fmt.Sprint("server", n)
		grace := []string{"0s", "2s"}[n%2]
		cmd := i.Command(slices.Concat([]string{"run", "-q", "--name", name, "--grace", grace, "--", "sh", "-c", `"$@" & read go`, "sh"}, kind.args), nil)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		run := stage.Start(t, cmd)
		var id string
		i.Until("session of "+name, func() bool {
			s, err := c.Session(ctx, name)
			if err == nil {
				id = s.ID
			}
			return id != "" || run.Exited()
		})
		var its heard
		i.Until("port of "+kind.name, func() bool {
			all := <-ports
			its = all[id]
			ports <- all
			return its.port != 0 || run.Exited()
		})
		if s, err := c.Session(ctx, id); err != nil || !slices.Contains(s.Ports, its.port) {
			t.Errorf("%s: the session has ports %v, want %d: %v", kind.name, s.Ports, its.port, err)
		}
		late = append(late, its.late)
		time.Sleep(listens)
		in.Close() // the root exits
		run.Wait()
		r := i.Receipt(id)
		if slices.ContainsFunc(r.PortsFreed, func(p api.Port) bool { return p.Port == its.port }) {
			found++
		} else {
			t.Errorf("%s listened for %v on %d: the receipt has %+v, busy %+v", kind.name, listens, its.port, r.PortsFreed, r.PortsBusy)
		}
	}
	slices.Sort(late)
	t.Logf("figure: %d of %d ports in the receipts, from the kernel's event to the API %v (median), %v at most; %d kinds of servers, %d other processes, load %d",
		found, count, late[len(late)/2], late[len(late)-1], len(kinds), processes, load)
	if late[len(late)-1] > limit {
		t.Errorf("an event came after %v, want %v at most", late[len(late)-1], limit)
	}
}
