//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// world is a NATS server with TLS, nkeys and a stream, and a daemon with a link, which a test may kill.
type world struct {
	*stage.Instance
	name    string // of the host
	policy  string // of the daemon; empty: none
	dir     string // of the server and the keys
	state   string // of the exporter
	port    int
	server  *exec.Cmd
	serves  *stage.Process // the daemon
	links   *exec.Cmd
	exports *exec.Cmd
	admin   *nats.Conn // of the account of the streams
	ann     *nats.Conn // an operator
}

// names are those of the hosts that the server knows.
var names = []string{"web1", "web2", "web3"}

func newWorld(t *testing.T, policy string, prepare ...func(*world)) *world {
	t.Helper()
	w := &world{Instance: stage.New(t), name: names[0], port: free(t)}
	w.open(names)
	w.join(policy, prepare...)
	return w
}

// open starts a server of packaging/nats as it is, except for the folders, the port, the users, and makes the streams.
func (w *world) open(hosts []string) {
	w.T.Helper()
	var err error
	w.dir, err = os.MkdirTemp("", "lngtest-link-")
	require.NoError(w.T, err, os.Chmod(w.dir, 0o755))
	w.T.Cleanup(func() { os.RemoveAll(w.dir) })
	w.certificate()
	read := func(name string) string { return string(require.ReadFile(w.T, "../../packaging/nats/"+name)) }
	write := func(name, text string) {
		require.NoError(w.T, os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600))
	}
	key := regexp.MustCompile(`U[A-Z2-7]{55}`)
	entries := regexp.MustCompile(`(?s)  \{ nkey: .*?\} \},\n`).FindAllString(read("users.conf"), -1)
	var users strings.Builder
	users.WriteString("users: [\n" + key.ReplaceAllString(entries[1], w.nkey("ann", os.Getuid(), os.Getgid())))
	for _, name := range hosts {
		users.WriteString(strings.ReplaceAll(key.ReplaceAllString(entries[0], w.nkey(name, stage.Nobody, stage.Group)), "web1", name))
	}
	write("users.conf", users.String()+"]\n")
	write("admin.conf", key.ReplaceAllString(read("admin.conf"), w.nkey("admin", os.Getuid(), os.Getgid())))
	write("accounts.conf", read("accounts.conf"))
	write("nats.conf", strings.NewReplacer("/etc/nats-server", w.dir, "/var/lib/nats-server", w.dir,
		"0.0.0.0:4222", fmt.Sprint("127.0.0.1:", w.port)).Replace(read("nats-server.conf")))
	w.serve()
	w.T.Cleanup(w.stopServer)
	w.admin, w.ann = w.connect("admin"), w.connect("ann")
	for _, stream := range []string{service.ReceiptsStream, service.HostsStream} {
		w.api("STREAM.CREATE."+stream, read(stream+".json"))
	}
}

func (w *world) connect(user string) *nats.Conn {
	w.T.Helper()
	key, err := nats.NkeyOptionFromSeed(filepath.Join(w.dir, user+".seed"))
	require.NoError(w.T, err)
	nc, err := nats.Connect(w.url(), key, nats.RootCAs(filepath.Join(w.dir, "cert.pem")), nats.CustomInboxPrefix("_INBOX."+user),
		nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(0, 0))
	require.NoError(w.T, err)
	w.T.Cleanup(nc.Close)
	return nc
}

// peer is another host of the same server.
func (w *world) peer(name, policy string, prepare ...func(*world)) *world {
	w.T.Helper()
	p := &world{Instance: stage.New(w.T), name: name, dir: w.dir, port: w.port, admin: w.admin, ann: w.ann}
	p.join(policy, prepare...)
	return p
}

// join starts the daemon and the link of the host.
func (w *world) join(policy string, prepare ...func(*world)) {
	w.T.Helper()
	if policy != "" {
		w.policy = w.Policy(policy)
	}
	w.state = w.path("state")
	require.NoError(w.T, os.Mkdir(w.state, 0o700), os.Chown(w.state, stage.Nobody, stage.Group))
	for _, f := range prepare {
		f(w)
	}
	w.daemon()
	w.start()
	w.export()
	w.T.Cleanup(func() {
		w.kill()
		w.killExport()
		if w.T.Failed() {
			w.T.Logf("link of %s: %s%s", w.name, w.log(), require.ReadFile(w.T, w.path("export")))
		}
	})
}

func (w *world) path(what string) string { return filepath.Join(w.dir, w.name+"."+what) }

// nkey makes an identity, and returns its public key.
func (w *world) nkey(name string, uid, gid int) string {
	w.T.Helper()
	user, err := nkeys.CreateUser()
	require.NoError(w.T, err)
	seed, err := user.Seed()
	require.NoError(w.T, err)
	public, err := user.PublicKey()
	file := filepath.Join(w.dir, name+".seed")
	require.NoError(w.T, err, os.WriteFile(file, seed, 0o600), os.Chown(file, uid, gid))
	return public
}

func free(t *testing.T) int {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

func (w *world) url() string { return "tls://127.0.0.1:" + strconv.Itoa(w.port) }

// certificate takes that of a test server, which is for 127.0.0.1.
func (w *world) certificate() {
	from := httptest.NewTLSServer(nil)
	defer from.Close()
	private, err := x509.MarshalPKCS8PrivateKey(from.TLS.Certificates[0].PrivateKey)
	require.NoError(w.T, err,
		os.WriteFile(filepath.Join(w.dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: from.Certificate().Raw}), 0o644),
		os.WriteFile(filepath.Join(w.dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// serve starts the server, and waits until it accepts connections.
func (w *world) serve() {
	w.T.Helper()
	w.server = exec.Command("../../bin/testdata/nats-server", "-c", filepath.Join(w.dir, "nats.conf"), "-l", filepath.Join(w.dir, "nats.log"))
	w.server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(w.T, w.server.Start())
	require.Eventually(w.T, "server", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(w.port))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func (w *world) stopServer() {
	if w.server != nil {
		w.server.Process.Kill()
		w.server.Wait()
		w.server = nil
	}
}

// daemon starts the daemon, with the group that reads every session.
func (w *world) daemon() {
	w.T.Helper()
	var args []string
	if w.policy != "" {
		args = []string{"--policy", w.policy}
	}
	w.serves = w.GroupDaemon(args...)
}

func (w *world) start() {
	w.T.Helper()
	w.links = w.service("log", w.Copy("/proc/self/exe"), "lngtest-link", "--socket", w.Socket, "--server", w.url(), "--ca", filepath.Join(w.dir, "cert.pem"),
		"--nkey", w.path("seed"), "--name", w.name, "--answer")
}

// export starts the exporter's part that stores receipts.
func (w *world) export() {
	w.T.Helper()
	w.exports = w.service("export", w.Copy("/proc/self/exe"), "lngtest-export", w.Socket, w.url(), filepath.Join(w.dir, "cert.pem"), w.path("seed"), w.name, w.state)
}

// service starts a program as its unit does: as a user whose only right is that of the group.
func (w *world) service(log string, command ...string) *exec.Cmd {
	w.T.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stage.Nobody, Gid: stage.Group}, Pdeathsig: syscall.SIGKILL}
	to, err := os.Create(w.path(log))
	require.NoError(w.T, err)
	defer to.Close()
	cmd.Stderr = to
	require.NoError(w.T, cmd.Start())
	return cmd
}

// kill sends the link SIGKILL, and killExport the exporter.
func (w *world) kill()       { kill(&w.links) }
func (w *world) killExport() { kill(&w.exports) }

func kill(cmd **exec.Cmd) {
	if *cmd != nil {
		(*cmd).Process.Kill()
		(*cmd).Wait()
		*cmd = nil
	}
}

// api makes a request to the server's JetStream.
func (w *world) api(what, body string) []byte {
	w.T.Helper()
	m, err := w.admin.Request("$JS.API."+what, []byte(body), 10*time.Second)
	require.NoError(w.T, err)
	if strings.Contains(string(m.Data), `"error":{`) {
		w.T.Fatalf("%s: %s", what, m.Data)
	}
	return m.Data
}

func (w *world) receipts() (all []service.Receipt) {
	w.T.Helper()
	var info struct {
		State struct {
			LastSeq uint64 `json:"last_seq"`
		} `json:"state"`
	}
	require.NoError(w.T, json.Unmarshal(w.api("STREAM.INFO.LIN_RECEIPTS", ""), &info))
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		m, err := w.admin.Request("$JS.API.DIRECT.GET.LIN_RECEIPTS", fmt.Appendf(nil, `{"seq":%d}`, seq), 10*time.Second)
		require.NoError(w.T, err)
		var r service.Receipt
		require.NoError(w.T, json.Unmarshal(plain(w.T, m), &r))
		if id := m.Header.Get("Nats-Msg-Id"); id != "web1/"+r.ID || r.Host != "web1" {
			w.T.Errorf("message %q has %+v", id, r)
		}
		all = append(all, r)
	}
	return all
}

func plain(t *testing.T, m *nats.Msg) []byte {
	t.Helper()
	if m.Header.Get(service.EncodingHeader) != service.Gzip {
		return m.Data
	}
	r, err := gzip.NewReader(bytes.NewReader(m.Data))
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return text
}

func (w *world) log() string {
	w.T.Helper()
	return string(require.ReadFile(w.T, w.path("log")))
}
