//go:build linux

package signed

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/internal/require"
)

type world struct {
	*testing.T
	dir       string
	host      string // fingerprint of its key
	keys      map[string]ssh.Signer
	policy    *policy.Policy
	wall      time.Time
	monotonic time.Duration
	boot      string
	*checker
}

const operatorRules = `version: 1
operators:
- {name: ann, verbs: end}
- {name: ben, verbs: end, users: root, signatures: 2}
- {name: cat, verbs: end, users: [no-such-user, root], sessions: ["ci-*"]}
- {name: old, verbs: end}
- {name: git, verbs: end}
- {name: hal, verbs: halt, sessions: ["ci-*"]}
- {name: una, verbs: [end, halt], users: no-such-user}
`

// newWorld makes a host whose record of commands is older than every command.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir(), keys: map[string]ssh.Signer{}, wall: time.Now().UTC().Truncate(time.Second)}
	w.host = w.hostKey("ed25519")
	var lines strings.Builder
	for _, name := range []string{"ann", "ben", "cat", "nobody", "old", "git", "hal", "una"} {
		options := map[string]string{
			"old": fmt.Sprintf("valid-before=%q ", w.wall.Format("20060102150405Z")), "git": `namespaces="git" `,
		}[name]
		fmt.Fprintf(&lines, "%s,%s@example.org %s%s", name, name, options, ssh.MarshalAuthorizedKey(w.key(name).PublicKey()))
	}
	w.operators("# the operators\n\n" + lines.String())
	w.rules(operatorRules)
	w.start()
	w.pass(api.MaxValidity + 2*skew) // above the floor of a new record
	return w
}

func (w *world) rules(text string) {
	p, err := policy.Parse(filepath.Join(w.dir, "policy.yaml"), []byte(text))
	require.NoError(w, err)
	w.policy = p
}

func (w *world) operators(text string) {
	require.NoError(w, os.WriteFile(filepath.Join(w.dir, "operators"), []byte(text), 0o644))
}

func (w *world) start() {
	w.checker = newChecker(Options{
		Ground: registry.Ground{Clock: registry.Clock{
			Boottime: func() uint64 { return uint64(w.monotonic) }, Clock: func() time.Time { return w.wall.Add(-w.monotonic) },
		}},
		Memory: filepath.Join(w.dir, "state", "commands.json"), HostKeys: w.dir, Policy: func() *policy.Policy { return w.policy },
		BootID: w.boot,
	})
}

func (w *world) pass(d time.Duration) { w.wall, w.monotonic = w.wall.Add(d), w.monotonic+d }

func (w *world) key(name string) ssh.Signer {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(w, err)
	s, err := ssh.NewSignerFromKey(private)
	require.NoError(w, err)
	w.keys[name] = s
	return s
}

// hostKey gives the host a key, and returns its fingerprint.
func (w *world) hostKey(kind string) string {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(w, err)
	s, err := ssh.NewSignerFromKey(private)
	require.NoError(w, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	path := filepath.Join(w.dir, "ssh_host_"+kind+"_key")
	require.NoError(w, err, os.WriteFile(path, pem.EncodeToMemory(block), 0o600),
		os.WriteFile(path+".pub", ssh.MarshalAuthorizedKey(s.PublicKey()), 0o644))
	return ssh.FingerprintSHA256(s.PublicKey())
}

func (w *world) command() api.Command {
	return api.Command{
		V: 1, ID: api.NewCommandID(), Verb: api.VerbEnd, Hosts: []string{w.host}, Sessions: []string{"build"}, Reason: "test",
		Issued: w.wall, NotAfter: w.wall.Add(api.MaxValidity),
	}
}

func (w *world) signature(text, name, namespace string) string {
	s, err := sshsig.Sign(strings.NewReader(text), w.keys[name], sshsig.HashSHA512, namespace)
	require.NoError(w, err)
	return string(sshsig.Armor(s))
}

func (w *world) sign(text string, names ...string) *api.SignedCommand {
	s := &api.SignedCommand{Command: text}
	for _, name := range names {
		s.Signatures = append(s.Signatures, w.signature(text, name, api.CommandNamespace))
	}
	return s
}

func (w *world) carryOut(s *api.SignedCommand) error {
	o, err := w.check(s)
	if err == nil {
		_, err = w.accept(o, "boot", 1000, []string{"s1"})
	}
	return err
}

// TestRefused: a command that lacks anything is refused with the reason, and the same command with
// nothing changed is carried out, once.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	edit := func(f func(*api.Command), names ...string) func() *api.SignedCommand {
		return func() *api.SignedCommand {
			c := w.command()
			f(&c)
			return w.sign(c.Text(), names...)
		}
	}
	text := func(f func(string) string) func() *api.SignedCommand {
		return func() *api.SignedCommand { return w.sign(f(w.command().Text()), "ann") }
	}
	none, halt := func(*api.Command) {}, func(c *api.Command) { c.Verb, c.Mode = api.VerbHalt, api.ModeHalt }
	for _, c := range []struct {
		name string
		make func() *api.SignedCommand
		why  string // empty: it is carried out
	}{
		{"nothing", edit(none, "ann"), ""},
		{"two signers", edit(none, "ben", "ann"), ""},
		{"no signature", edit(none), "no signature"},
		{"unknown key", func() *api.SignedCommand { w.key("eve"); return w.sign(w.command().Text(), "eve") }, "is of no operator"},
		{"no entry in the policy", edit(none, "nobody"), "policy has no operator nobody or nobody@example.org"},
		{"expired key", edit(none, "old"), "no longer valid"},
		{"key for something else", edit(none, "git"), "not for namespace"},
		{"one signature of two", edit(none, "ben"), "ben needs 2 signatures"},
		{"a second signer who may not", edit(none, "ben", "hal"), "ben needs 2 signatures"},
		{"one signer twice", edit(none, "ben", "ben"), "ben signed twice"},
		{"a bad signature beside a good one", func() *api.SignedCommand {
			s := w.sign(w.command().Text(), "ann")
			s.Signatures = append(s.Signatures, "garbage")
			return s
		}, "signature 2: it is not an SSH signature"},
		{"signature of another text", func() *api.SignedCommand {
			s := w.sign(w.command().Text(), "ann")
			s.Command = w.command().Text()
			return s
		}, "it is not of this command"},
		{"signature for another purpose", func() *api.SignedCommand {
			text := w.command().Text()
			return &api.SignedCommand{Command: text, Signatures: []string{w.signature(text, "ann", "file")}}
		}, "it is not of this command"},
		{"large signature", func() *api.SignedCommand {
			s := w.sign(w.command().Text(), "ann")
			s.Signatures[0] += strings.Repeat("\n", api.MaxSignature)
			return s
		}, "larger than 4 KiB"},
		{"another host", edit(func(c *api.Command) { c.Hosts = []string{"SHA256:another"} }, "ann"), "for other hosts"},
		{"its name, although it has a key", edit(func(c *api.Command) { c.Hosts[0], _ = os.Hostname() }, "ann"), "for other hosts"},
		{"expired", edit(func(c *api.Command) { c.Issued, c.NotAfter = w.wall.Add(-5*time.Minute), w.wall }, "ann"), "it expired at"},
		{"of the future", edit(func(c *api.Command) {
			c.Issued, c.NotAfter = w.wall.Add(2*skew), w.wall.Add(3*skew)
		}, "ann"), "issued in the future"},
		{"valid for too long", edit(func(c *api.Command) { c.NotAfter = c.NotAfter.Add(time.Second) }, "ann"), "valid for at most 5m"},
		{"never valid", edit(func(c *api.Command) { c.NotAfter = c.Issued }, "ann"), "valid for at most 5m"},
		{"another verb", edit(func(c *api.Command) { c.Verb = "kill" }, "ann"), `verb "kill" is unknown`},
		{"another version", edit(func(c *api.Command) { c.V = 2 }, "ann"), "version 2"},
		{"a short id", edit(func(c *api.Command) { c.ID = c.ID[:30] }, "ann"), "32 hexadecimal digits"},
		{"an id in capitals", edit(func(c *api.Command) { c.ID = strings.Repeat("A", 32) }, "ann"), "32 hexadecimal digits"},
		{"no host", edit(func(c *api.Command) { c.Hosts = nil }, "ann"), "1 to 256 keys"},
		{"too many keys of hosts", edit(func(c *api.Command) { c.Hosts = slices.Repeat(c.Hosts[:1], 257) }, "ann"), "1 to 256 keys"},
		{"no session", edit(func(c *api.Command) { c.Sessions = nil }, "ann"), "1 to 64 sessions"},
		{"sessions and all", edit(func(c *api.Command) { c.All = true }, "ann"), "1 to 64 sessions"},
		{"a port", edit(func(c *api.Command) { c.Sessions = []string{"a", ":80"} }, "ann"), "sessions by ids, names or patterns"},
		{"an empty name", edit(func(c *api.Command) { c.Sessions = []string{""} }, "ann"), "sessions by ids, names or patterns"},
		{"a negative grace", edit(func(c *api.Command) { c.GraceMS = new(int64(-1)) }, "ann"), "grace must be"},
		{"a right that it lacks", edit(halt, "ann"), "ann may not halt"},
		{"a halt by a signer of some sessions", edit(halt, "hal"), "that concerns every session"},
		{"a halt by a signer of some users", edit(halt, "una"), "that concerns every session"},
		{"a halt without a mode", edit(func(c *api.Command) { c.Verb = api.VerbHalt }, "ann"), `halt has no mode ""`},
		{"an end with a mode", edit(func(c *api.Command) { c.Mode = api.ModeDrain }, "ann"), `end has no mode "drain"`},
		{"a drain with sessions", edit(func(c *api.Command) { c.Verb, c.Mode = api.VerbHalt, api.ModeDrain }, "ann"), "mode drain ends no session"},
		{"a halt with a grace", edit(func(c *api.Command) { c.Verb, c.Mode, c.GraceMS = api.VerbHalt, api.ModeHalt, new(int64(1)) }, "ann"), "no plan and no grace"},
		{"a halt with a long reason", edit(func(c *api.Command) {
			c.Verb, c.Mode, c.Reason = api.VerbHalt, api.ModeHalt, strings.Repeat("r", api.MaxHaltReason+1)
		}, "ann"), "at most 200 bytes"},
		{"no reason", edit(func(c *api.Command) { c.Reason = " " }, "ann"), "reason must be"},
		{"a terminal's escape", edit(func(c *api.Command) { c.Reason = "\x1b[2J" }, "ann"), "control characters"},
		{"not JSON", text(func(s string) string { return s[1:] }), "not JSON"},
		{"a space more", text(func(s string) string { return s + " " }), "not canonical"},
		{"a field twice", text(func(s string) string { return strings.Replace(s, `{`, `{"verb":"end",`, 1) }), "not canonical"},
		{"an unknown field", text(func(s string) string { return strings.Replace(s, `{`, `{"extra":1,`, 1) }), "not canonical"},
		{"too large", text(func(s string) string { return s + strings.Repeat(" ", api.MaxCommand) }), "larger than 16 KiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.make()
			err := w.carryOut(s)
			if c.why == "" {
				require.NoError(t, err)
				c.why, err = "accepted before", w.carryOut(s)
			}
			if err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("error %v, want %q", err, c.why)
			}
		})
	}
}

// TestOperatorsFile: what ssh-keygen would read in another way is an error, and a file that others can
// change names nobody. Every change takes effect at once.
func TestOperatorsFile(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.dir, "operators")
	key := string(ssh.MarshalAuthorizedKey(w.keys["ann"].PublicKey()))
	for text, why := range map[string]string{
		"ann " + key:   "",
		"x,ann " + key: "",
		"ann namespaces=\"a,lineage-command@1\" " + key: "",
		"":                                    "of no operator",
		"* " + key:                            "operators:1: want names without wildcards",
		"\n!ann " + key:                       "operators:2: want names without wildcards",
		"ann cert-authority " + key:           `option "cert-authority" is not supported`,
		"ann verify-required " + key:          `option "verify-required" is not supported`,
		"ann valid-after=\"never\" " + key:    `invalid time "never"`,
		"ann valid-after=\"20990101\" " + key: "not valid yet",
		"ann ssh-ed25519 AAAA":                "the key cannot be read",
		"ann":                                 "want names",
		"# " + strings.Repeat("x", maxOperators) + "\n" + key: "larger than 1 MiB",
	} {
		w.operators(text)
		if err := w.carryOut(w.sign(w.command().Text(), "ann")); why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
			t.Errorf("%.60q: error %v, want %q", text, err, why)
		}
	}
	w.operators("ann " + key)
	for mode, why := range map[os.FileMode]string{0o644: "", 0o664: "users other than root may write to it", 0o646: "users other than root may write to it"} {
		require.NoError(t, os.Chmod(path, mode))
		if err := w.carryOut(w.sign(w.command().Text(), "ann")); (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("mode %v: error %v, want %q", mode, err, why)
		}
	}
	// A ConfigMap's files are links, which change all at once.
	require.NoError(t, os.Rename(path, path+".data"), os.Chmod(path+".data", 0o644), os.Symlink("operators.data", path))
	require.NoError(t, w.carryOut(w.sign(w.command().Text(), "ann")))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(path, 1000, 1000))
		w.refusal(w.sign(w.command().Text(), "ann"), "it belongs to uid 1000")
	}
	require.NoError(t, os.Remove(path))
	if err := w.carryOut(w.sign(w.command().Text(), "ann")); err == nil || !strings.Contains(err.Error(), "keys of the operators are unknown") {
		t.Errorf("without the file: %v", err)
	}
	w.rules("version: 1\n")
	if err := w.carryOut(w.sign(w.command().Text(), "ann")); err == nil || !strings.Contains(err.Error(), "the policy names no operator") {
		t.Errorf("without operators in the policy: %v", err)
	}
}

// TestMay: an operator may end what its entry covers, and only with as many others as it needs who may, too.
func TestMay(t *testing.T) {
	w := newWorld(t)
	root, ci, other := access.Scope{Name: "x"}, access.Scope{Name: "ci-1"}, access.Scope{UID: 4294967294, Name: "ci-1"}
	for _, c := range []struct {
		signers []string
		may     []access.Scope
	}{
		{[]string{"ann"}, []access.Scope{root, ci, other}},
		{[]string{"cat"}, []access.Scope{ci}},
		{[]string{"una"}, nil},
		{[]string{"ben", "cat"}, []access.Scope{ci}}, // cat has no right to another session of root, so ben is alone
		{[]string{"ben", "ann"}, []access.Scope{root, ci, other}},
	} {
		o, err := w.check(w.sign(w.command().Text(), c.signers...))
		require.NoError(t, err)
		for _, s := range []access.Scope{root, ci, other} {
			want := slices.ContainsFunc(c.may, func(m access.Scope) bool { return m.UID == s.UID && m.Name == s.Name })
			if d := o.may(access.End, s); d.Allow != want || !want && d.Why == "" {
				t.Errorf("%v may end %v: %+v, want %v", c.signers, s, d, want)
			}
		}
		for _, v := range []access.Verb{access.Kill, access.Manage, access.Keep, access.Adopt, access.Branch} {
			if o.may(v, ci).Allow {
				t.Errorf("%v may %v", c.signers, v)
			}
		}
	}
}

// securityKey is a security key in software, which sets these flags.
type securityKey struct {
	public ssh.PublicKey
	secret ed25519.PrivateKey
	flags  byte
}

func (k securityKey) sign(text string) *api.SignedCommand {
	sum := sha256.Sum256([]byte(text))
	signed := append([]byte("SSHSIG"), ssh.Marshal(struct{ Namespace, Reserved, Hash, Sum string }{api.CommandNamespace, "", "sha256", string(sum[:])})...)
	app, hashed := sha256.Sum256([]byte("ssh:")), sha256.Sum256(signed)
	rest := []byte{k.flags, 0, 0, 0, 7} // and a counter
	signature := &ssh.Signature{Format: k.public.Type(), Blob: ed25519.Sign(k.secret, slices.Concat(app[:], rest, hashed[:])), Rest: rest}
	armored := sshsig.Armor(&sshsig.Signature{
		Version: 1, PublicKey: k.public, Namespace: api.CommandNamespace, HashAlgorithm: sshsig.HashSHA256, Signature: signature,
	})
	return &api.SignedCommand{Command: text, Signatures: []string{string(armored)}}
}

// TestTouch: the signature of a security key counts only if its button was touched.
func TestTouch(t *testing.T) {
	w := newWorld(t)
	public, secret, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	key, err := ssh.ParsePublicKey(ssh.Marshal(struct{ Type, Key, App string }{ssh.KeyAlgoSKED25519, string(public), "ssh:"}))
	require.NoError(t, err)
	w.operators("ann " + string(ssh.MarshalAuthorizedKey(key)))
	w.refusal(securityKey{key, secret, 0}.sign(w.command().Text()), "was not touched")
	require.NoError(t, w.carryOut(securityKey{key, secret, userPresent}.sign(w.command().Text())))
}

// TestInterop: ssh-keygen verifies our receipts by known keys, and we verify what it signs.
func TestInterop(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("needs ssh-keygen")
	}
	w := newWorld(t)
	keygen := func(in string, args ...string) {
		t.Helper()
		cmd := exec.Command("ssh-keygen", args...)
		cmd.Dir, cmd.Stdin = w.dir, strings.NewReader(in)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen %v: %v\n%s", args, err, out)
		}
	}
	var lines []byte
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		keygen("", "-q", "-t", kind, "-N", "", "-f", kind)
		lines = append(append(lines, kind...), ' ')
		lines = append(lines, require.ReadFile(t, filepath.Join(w.dir, kind+".pub"))...)
	}
	w.operators(string(lines))
	w.rules("version: 1\noperators: [{name: ed25519, verbs: end}, {name: ecdsa, verbs: end}, {name: rsa, verbs: end, signatures: 3}]\n")
	text := w.command().Text()
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "command"), []byte(text), 0o600))
	s := &api.SignedCommand{Command: text}
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		keygen("", "-q", "-Y", "sign", "-f", kind, "-n", api.CommandNamespace, "command")
		sig := filepath.Join(w.dir, "command.sig")
		keygen(text, "-q", "-Y", "verify", "-f", "operators", "-I", kind, "-n", api.CommandNamespace, "-s", sig)
		s.Signatures = append(s.Signatures, string(require.ReadFile(t, sig)))
		require.NoError(t, os.Remove(sig))
	}
	require.NoError(t, w.carryOut(s))

	reply, err := w.checker.sign("the receipt", []string{w.host})
	require.NoError(t, err)
	pub := bytes.TrimSpace(require.ReadFile(t, filepath.Join(w.dir, "ssh_host_ed25519_key.pub")))
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "hosts"), append([]byte("web1 "), pub...), 0o600),
		os.WriteFile(filepath.Join(w.dir, "receipt.sig"), []byte(reply.Signature), 0o600))
	keygen("the receipt", "-q", "-Y", "verify", "-f", "hosts", "-I", "web1", "-n", api.ReceiptNamespace, "-s", "receipt.sig")
	require.Equal(t, reply.HostKey, w.host)
}

// TestHostKeys: the receipt is signed with the key by which the command named the host; a host without
// a key is known by its name, and its receipt is unsigned.
func TestHostKeys(t *testing.T) {
	w := newWorld(t)
	second := w.hostKey("rsa") // its kind does not matter
	for _, mark := range []string{w.host, second} {
		reply, err := w.checker.sign("text", []string{"SHA256:another", mark})
		require.NoError(t, err)
		require.Equal(t, reply.HostKey, mark)
	}
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "ssh_host_ed25519_key"), []byte("garbage"), 0o600))
	if reply, err := w.checker.sign("text", []string{w.host}); err == nil || reply.Receipt != "text" || reply.Signature != "" {
		t.Errorf("with an unreadable key: %+v, %v", reply, err)
	}
	for _, kind := range []string{"ed25519", "rsa"} {
		require.NoError(t, os.Remove(filepath.Join(w.dir, "ssh_host_"+kind+"_key.pub")))
	}
	c := w.command()
	c.Hosts = []string{hostname(t)}
	require.NoError(t, w.carryOut(w.sign(c.Text(), "ann")))
	reply, err := w.checker.sign("text", nil)
	require.NoError(t, err)
	if reply.Signature != "" || reply.Receipt != "text" {
		t.Errorf("without a key: %+v", reply)
	}
}

func hostname(t *testing.T) string {
	name, err := os.Hostname()
	require.NoError(t, err)
	return name
}
