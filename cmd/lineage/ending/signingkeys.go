package ending

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/urgent"
)

// hostKeys is where sshd has the keys of a host by default.
const hostKeys = "/etc/ssh"

// sign signs a text with a key: a file, which may be a hardware key's, or a public key whose other half an
// SSH agent has. ssh-keygen asks for a passphrase or a touch on the terminal.
func sign(ctx context.Context, text, key string) (string, error) {
	out, err := run(ctx, text, "ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", api.CommandNamespace)
	if err != nil {
		return "", cli.Errorf(api.ExitFailed, "sign with %s: %w", key, err)
	}
	return out, nil
}

// run runs a program of OpenSSH and returns its output. Its messages are the error's.
func run(ctx context.Context, in, name string, args ...string) (string, error) {
	urgent.Relax()
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &stdout, &stderr
	err := cmd.Run()
	if said := strings.TrimSpace(stderr.String()); err != nil && said != "" {
		err = errors.New(strings.ReplaceAll(said, "\n", "; "))
	}
	return stdout.String(), err
}

// ourMarks are the fingerprints of this host's keys; of a host that has none, its name.
func ourMarks() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(hostKeys, "ssh_host_*_key.pub"))
	if err != nil {
		return nil, err
	}
	var marks []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if key, _, _, _, err := ssh.ParseAuthorizedKey(text); err == nil {
			marks = append(marks, ssh.FingerprintSHA256(key))
		}
	}
	if len(marks) > 0 {
		return marks, nil
	}
	name, err := os.Hostname()
	return []string{name}, err
}

// marksOf are the fingerprints of the keys by which ssh knows a host.
func marksOf(ctx context.Context, host string) ([]string, error) {
	out, err := run(ctx, "", "ssh", "-G", "--", host)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", host, err)
	}
	config := map[string]string{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		config[key] = value
	}
	name := config["hostkeyalias"]
	if name == "" {
		name = config["hostname"]
		if port := config["port"]; port != "22" {
			name = fmt.Sprintf("[%s]:%s", name, port)
		}
	}
	var marks, revoked []string // a key that one file revokes is of no host, whatever the others say
	for _, file := range strings.Fields(config["userknownhostsfile"] + " " + config["globalknownhostsfile"]) {
		if rest, ok := strings.CutPrefix(file, "~/"); ok {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, err
			}
			file = filepath.Join(home, rest)
		}
		found, err := run(ctx, "", "ssh-keygen", "-F", name, "-f", file)
		if err != nil {
			continue // not in this file, or the file is missing
		}
		its, never := known(found)
		marks, revoked = append(marks, its...), append(revoked, never...)
	}
	before := len(marks)
	marks = slices.DeleteFunc(marks, func(m string) bool { return slices.Contains(revoked, m) })
	switch {
	case before > 0 && len(marks) == 0:
		return nil, cli.Errorf(api.ExitNotFound, "%s: known_hosts revokes its host key %s",
			host, strings.Join(revoked, ", "))
	case len(marks) == 0:
		return nil, cli.Errorf(api.ExitNotFound,
			"%s: its host key is not known; connect with ssh once, and compare the fingerprint", host)
	}
	return marks, nil
}

// known are the fingerprints of the lines of a known_hosts file, without authorities, and of those it revokes.
func known(lines string) (marks, revoked []string) {
	for rest := []byte(lines); ; {
		marker, _, key, _, more, err := ssh.ParseKnownHosts(rest)
		if err != nil {
			return marks, revoked // io.EOF, or a line that ssh would not use either
		}
		switch marker {
		case "":
			marks = append(marks, ssh.FingerprintSHA256(key))
		case "revoked":
			revoked = append(revoked, ssh.FingerprintSHA256(key))
		}
		rest = more
	}
}
