package ending

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	s, err := ssh.NewSignerFromKey(private)
	require.NoError(t, err)
	return s
}

func signedBy(t *testing.T, key ssh.Signer, namespace string, r *api.CommandReceipt) *api.CommandReply {
	t.Helper()
	text, err := json.Marshal(r)
	require.NoError(t, err)
	s, err := sshsig.Sign(bytes.NewReader(text), key, sshsig.HashSHA512, namespace)
	require.NoError(t, err)
	return &api.CommandReply{Receipt: string(text), Signature: string(sshsig.Armor(s)), HostKey: ssh.FingerprintSHA256(key.PublicKey())}
}

// TestVerified: a receipt counts only if a key by which the host is known has signed it.
func TestVerified(t *testing.T) {
	host, other := newKey(t), newKey(t)
	marks := []string{"SHA256:older", ssh.FingerprintSHA256(host.PublicKey())}
	c := &api.Command{ID: api.NewCommandID()}
	r := &api.CommandReceipt{ID: c.ID}
	changed := signedBy(t, host, api.ReceiptNamespace, r)
	changed.Receipt = strings.Replace(changed.Receipt, `"complete":false`, `"complete":true`, 1)
	unsigned := signedBy(t, host, api.ReceiptNamespace, r)
	unsigned.Signature = ""
	for name, tt := range map[string]struct {
		reply *api.CommandReply
		marks []string
		why   string
	}{
		"signed":              {signedBy(t, host, api.ReceiptNamespace, r), marks, ""},
		"of another host":     {signedBy(t, other, api.ReceiptNamespace, r), marks, "a key that the host is not known by"},
		"of another purpose":  {signedBy(t, host, api.CommandNamespace, r), marks, "the signature of the receipt"},
		"changed":             {changed, marks, "the signature of the receipt"},
		"of another command":  {signedBy(t, host, api.ReceiptNamespace, &api.CommandReceipt{ID: "x"}), marks, "not of command"},
		"not JSON":            {&api.CommandReply{Receipt: "{"}, marks, "not of command"},
		"unsigned":            {unsigned, marks, "is not signed"},
		"of a host without":   {unsigned, []string{"web1"}, ""},
		"signed, known as it": {signedBy(t, other, api.ReceiptNamespace, r), []string{"web1"}, "a key that the host is not known by"},
	} {
		got, err := verified(tt.reply, c, tt.marks)
		if tt.why == "" && (err != nil || got.ID != c.ID) || tt.why != "" && (err == nil || !strings.Contains(err.Error(), tt.why)) {
			t.Errorf("%s: %v, error %v, want %q", name, got, err, tt.why)
		}
	}
}

// TestMarks: a host is known by the keys that ssh would accept: by alias and port, in every file, hashed
// or not, without revoked ones.
func TestMarks(t *testing.T) {
	dir := t.TempDir()
	keys := make([]string, 5)
	lines := make([]string, len(keys))
	for i := range keys {
		key := newKey(t).PublicKey()
		keys[i], lines[i] = ssh.FingerprintSHA256(key), string(ssh.MarshalAuthorizedKey(key))
	}
	files := map[string]string{
		"one": "web1.example " + lines[0] + "[web2.example]:2222 " + lines[1] + "@revoked web1.example " + lines[2] + "web4.example " + lines[4],
		"two": "web1.example " + lines[3] + "@revoked * " + lines[4],
		"ssh": "#!/bin/sh\n[ $3 != down ] || { echo 'Bad configuration' >&2; exit 255; }\nprintf 'hostname %s.example\\nport %s\\nuserknownhostsfile " +
			dir + "/one " + dir + "/none\\nglobalknownhostsfile " + dir + "/two\\n' $3 $([ $3 = web2 ] && echo 2222 || echo 22)\n",
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	if out, err := exec.Command("ssh-keygen", "-q", "-H", "-f", filepath.Join(dir, "two")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for host, want := range map[string][]string{"web1": {keys[0], keys[3]}, "web2": {keys[1]}, "web3": nil, "web4": nil, "down": nil} {
		got, err := marksOf(t.Context(), host)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%s: %v, %v, want %v", host, got, err, want)
		}
	}
	_, err := marksOf(t.Context(), "web3")
	require.Contains(t, err.Error(), "web3: its host key is not known")
	_, err = marksOf(t.Context(), "web4")
	require.Contains(t, err.Error(), "web4: known_hosts revokes its host key "+keys[4])
	_, err = marksOf(t.Context(), "down")
	require.Contains(t, err.Error(), "down: Bad configuration")
}

// TestFile: what --save writes is passed on, signed again and sent; what it has not written is refused.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	key, file := filepath.Join(dir, "key"), filepath.Join(dir, "command")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var said bytes.Buffer
	var got []api.SignedCommand
	now := time.Now()
	s := &CommandSender{
		SigningFlags: SigningFlags{Keys: []string{key}, Reason: "test", Save: file}, Yes: true, Format: "table",
		Console: &cli.Console{Stdin: strings.NewReader(""), Stdout: &said, Stderr: &said, Env: func(string) string { return "" }, Now: func() time.Time { return now }},
		Local: func(context.Context) (api.Client, error) {
			c := &apitest.Client{}
			c.On.Command = func(c api.SignedCommand) (*api.CommandReply, error) {
				got = append(got, c)
				return nil, api.NewError(api.CodeDenied, "command refused", "")
			}
			return c, nil
		},
	}
	require.NoError(t, s.Order(t.Context(), api.Command{Verb: api.VerbEnd, Sessions: []string{"build"}}))
	require.Contains(t, said.String(), "saved; nothing was sent", "lineage end --from "+file)
	require.NoError(t, s.Pass(t.Context(), file))
	s.Save = ""
	if err := s.Pass(t.Context(), file); err == nil || err.Error() != "command refused" {
		t.Errorf("error %v", err)
	}
	if len(got) != 1 || len(got[0].Signatures) != 3 {
		t.Fatalf("sent %+v", got)
	}
	c, err := api.ParseCommand(got[0].Command)
	require.NoError(t, err)
	if c.Reason != "test" || !slices.Equal(c.Sessions, []string{"build"}) || c.NotAfter.Sub(c.Issued) != api.MaxValidity {
		t.Errorf("command %+v", c)
	}
	refused := func(why string) {
		t.Helper()
		require.Contains(t, fmt.Sprint(s.Pass(t.Context(), file)), why)
	}
	s.Keys = []string{filepath.Join(dir, "nosuch")}
	refused(s.Keys[0] + ": no such file")
	now = now.Add(api.MaxValidity)
	refused("it expired at")
	for content, why := range map[string]string{
		"": "not a command", "{}": "not a command", `{"command":"{}"}`: "version 0", strings.Repeat(" ", maxFile) + "{}": "not a command",
	} {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		refused(why)
	}
	require.NoError(t, os.Remove(file))
	refused("no such file")
	require.Equal(t, len(got), 1)
}

// TestManyHosts: before the question the sessions of all hosts are shown that would end. They end on one host first, and no
// later host gets the command if something is left; a halt goes to all. More hosts than allowed get none.
func TestManyHosts(t *testing.T) {
	now := int64(0)
	end := api.Command{ID: "c1", Verb: api.VerbEnd, Sessions: []string{"build"}, GraceMS: &now}
	all := api.Command{ID: "c1", Verb: api.VerbEnd, All: true}
	halt := api.Command{ID: "c1", Verb: api.VerbHalt, Mode: api.ModeHalt, All: true}
	for name, tt := range map[string]struct {
		c       api.Command
		verdict api.Verdict
		most    int
		want    string // the hosts that get it
	}{
		"clean":      {end, api.VerdictClean, 3, "h0 h1 h2"},
		"left":       {end, api.VerdictLeft, 3, "h0"},
		"all":        {all, api.VerdictLeft, 3, "h0"},
		"halt":       {halt, api.VerdictLeft, 0, "h0 h1 h2"},
		"too many":   {end, api.VerdictClean, 2, ""},
		"no receipt": {end, "", 3, "h0"}, // in time
	} {
		var said bytes.Buffer
		var mu sync.Mutex
		var got []string
		s := &CommandSender{
			Hosts: []string{"h0", "h1", "h2"}, Yes: true, Format: "table", MaxHosts: tt.most,
			Timeout: time.Millisecond,
			Console: &cli.Console{Stdin: strings.NewReader(""), Stdout: &said, Stderr: &said, Env: func(string) string { return "" }, Now: time.Now},
			Dial: func(_ context.Context, host string) (api.Client, error) {
				receipt := api.CommandReceipt{ID: "c1"}
				if tt.verdict != "" {
					receipt.Complete, receipt.Reports = true, []api.Report{{Session: "s", Verdict: tt.verdict}}
				}
				r, err := json.Marshal(receipt)
				c := &apitest.Client{}
				c.On.Command = func(api.SignedCommand) (*api.CommandReply, error) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, host)
					return &api.CommandReply{Receipt: string(r)}, err
				}
				c.On.Commanded = func(string) (*api.CommandReply, error) { return &api.CommandReply{Receipt: string(r)}, nil }
				return c, nil
			},
		}
		err := s.deliver(t.Context(), "end", &tt.c, &api.SignedCommand{}, map[string][]string{})
		slices.Sort(got)
		require.Equal(t, strings.Join(got, " "), tt.want)
		if (err == nil) != (tt.verdict == api.VerdictClean && tt.want != "") ||
			tt.want == "h0" && !strings.Contains(said.String(), "nothing was sent, because something is left on h0") {
			t.Errorf("%s: %v\n%s", name, err, &said)
		}
	}
	c := &apitest.Client{}
	c.Has.Sessions = []api.Session{{ID: "aaa", Name: "build"}, {ID: "build", Name: "x"}, {ID: "kept", Kept: true, Parent: "outer"},
		{ID: "bbb", Name: "other"}, {ID: "outer"}}
	for command, want := range map[*api.Command]string{
		&end: "aaa build", &all: "aaa build bbb", &halt: "aaa build kept bbb outer", {Verb: api.VerbEnd, Sessions: []string{"buil"}}: "",
	} {
		l, err := signingPlanned(command)(t.Context(), "h0", c)
		got := ""
		if err == nil {
			got = strings.Join(l.Names, " ")
		}
		require.Equal(t, got, want)
	}
}
