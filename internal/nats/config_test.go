package nats

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

const packaging = "../../packaging/nats/"

// world is a server of the files in packaging/nats, with its users.
type world struct {
	*testing.T
	dir    string
	server *server.Server
	creds  map[string]nats.Option // of a user
}

// newWorld starts a server of the files as they are, except for the folders, the port and the users.
func newWorld(t *testing.T, accounts func(w *world) string) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir(), creds: make(map[string]nats.Option)}
	w.certificate()
	conf := strings.NewReplacer("/etc/nats-server", w.dir, "/var/lib/nats-server", w.dir, "0.0.0.0:4222", "127.0.0.1:-1").Replace(w.read("nats-server.conf"))
	w.write("nats-server.conf", strings.Replace(conf, `include "accounts.conf"`, accounts(w), 1))
	opts, err := server.ProcessConfigFile(filepath.Join(w.dir, "nats-server.conf"))
	w.must(err)
	opts.NoSigs = true
	w.server, err = server.NewServer(opts)
	w.must(err)
	w.server.Start()
	t.Cleanup(func() { w.server.Shutdown(); w.server.WaitForShutdown() })
	if !w.server.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	return w
}

func (w *world) must(errs ...error) {
	w.Helper()
	if err := errors.Join(errs...); err != nil {
		w.Fatal(err)
	}
}

func (w *world) read(name string) string {
	w.Helper()
	text, err := os.ReadFile(packaging + name)
	w.must(err)
	return string(text)
}

func (w *world) write(name, text string) {
	w.Helper()
	w.must(os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600))
}

// files writes the accounts' files with the users' keys, and adds a second host and a second operator.
func files(w *world) string {
	w.Helper()
	text := w.read("users.conf")
	entry, key := regexp.MustCompile(`(?s)  \{ nkey: .*?\} \},\n`), regexp.MustCompile(`U[A-Z2-7]{55}`)
	for i, users := range [][]string{{"web1", "web2"}, {"ann", "ben"}} {
		example := entry.FindAllString(w.read("users.conf"), -1)[i]
		all := ""
		for _, user := range users {
			all += strings.ReplaceAll(key.ReplaceAllString(example, w.key(user)), users[0], user)
		}
		text = strings.Replace(text, example, all, 1)
	}
	w.write("users.conf", text)
	w.write("admin.conf", key.ReplaceAllString(w.read("admin.conf"), w.key("admin")))
	w.write("accounts.conf", w.read("accounts.conf"))
	return `include "accounts.conf"`
}

func (w *world) key(user string) string {
	w.Helper()
	pair, err := nkeys.CreateUser()
	w.must(err)
	public, err := pair.PublicKey()
	w.must(err)
	w.creds[user] = nats.Nkey(public, pair.Sign)
	return public
}

// certificate takes that of a test server, which is for 127.0.0.1.
func (w *world) certificate() {
	w.Helper()
	from := httptest.NewTLSServer(nil)
	defer from.Close()
	private, err := x509.MarshalPKCS8PrivateKey(from.TLS.Certificates[0].PrivateKey)
	w.must(err)
	w.write("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: from.Certificate().Raw})))
	w.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

// peer is a connection of a user, with what the server has refused.
type peer struct {
	*nats.Conn
	w       *world
	mu      sync.Mutex
	refused []string
}

func (w *world) dial(opts ...nats.Option) (*peer, error) {
	p := &peer{w: w}
	opts = append(opts, nats.RootCAs(filepath.Join(w.dir, "cert.pem")), nats.NoReconnect(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.refused = append(p.refused, err.Error())
	}))
	var err error
	p.Conn, err = nats.Connect(fmt.Sprintf("tls://%s", w.server.Addr()), opts...)
	if err == nil {
		w.Cleanup(p.Close)
	}
	return p, err
}

func (w *world) connect(user string) *peer {
	w.Helper()
	p, err := w.dial(w.creds[user], nats.CustomInboxPrefix("_INBOX."+user))
	w.must(err)
	return p
}

// violates waits until the server has refused n things since the last call, and returns what it said.
func (p *peer) violates(n int) string {
	p.w.Helper()
	p.w.must(p.Flush())
	for range 200 {
		p.mu.Lock()
		all := p.refused
		if len(all) >= n {
			p.refused = nil
		}
		p.mu.Unlock()
		if len(all) >= n {
			return strings.Join(all, "\n")
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ""
}

func (p *peer) hears(subject string) *nats.Subscription {
	p.w.Helper()
	s, err := p.SubscribeSync(subject)
	p.w.must(err)
	p.w.must(p.Flush())
	return s
}

func (p *peer) api(what, body string) (reply struct {
	Error *struct{ Description string } `json:"error"`
	State struct {
		Messages int
		Subjects map[string]int
	}
}) {
	p.w.Helper()
	m, err := p.Request("$JS.API."+what, []byte(body), 5*time.Second)
	p.w.must(err)
	p.w.must(json.Unmarshal(m.Data, &reply))
	return reply
}

func (p *peer) streams() {
	p.w.Helper()
	for _, name := range []string{"LIN_RECEIPTS", "KV_LIN_HOSTS"} {
		if r := p.api("STREAM.CREATE."+name, p.w.read(name+".json")); r.Error != nil {
			p.w.Fatalf("%s: %s", name, r.Error.Description)
		}
	}
}

// TestUnit: the example of a unit is one.
func TestUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze")
	}
	w := &world{T: t, dir: t.TempDir()}
	w.write("lngtest-nats.service", strings.Replace(w.read("nats-server.service"), "/usr/local/bin/nats-server", "/bin/true", 1))
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", filepath.Join(w.dir, "lngtest-nats.service")).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
