//go:build linux

package signed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/lineage-ebpf/lineage/daemon/system"
)

const maxOperators = 1 << 20

type signer struct {
	names      []string
	key        ssh.PublicKey
	mark       string   // its fingerprint
	namespaces []string // that it may sign in; empty: any
	from, to   time.Time
}

// readOperators reads a file of the format ALLOWED SIGNERS of ssh-keygen(1), which only root may have chosen and
// written. It is read for each command, so that a line that was removed has no effect any more. The path
// may be a link, as it is in a volume of a ConfigMap.
func readOperators(path string) ([]signer, error) {
	f, err := system.OpenRootsFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxOperators+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxOperators {
		return nil, fmt.Errorf("%s is larger than %d MiB", path, maxOperators>>20)
	}
	var all []signer
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		s, err := parseSigner(string(line))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// parseSigner reads one line: names, options, key. What ssh-keygen would understand and we would not
// is an error, not ignored: it may restrict the key.
func parseSigner(line string) (s signer, err error) {
	names, rest, ok := strings.Cut(line, " ")
	if !ok || strings.ContainsAny(names, `"*?!`) {
		return s, errors.New("want names without wildcards, options and a key")
	}
	s.names = strings.Split(names, ",")
	key, _, options, more, err := ssh.ParseAuthorizedKey([]byte(rest))
	if err != nil || len(more) > 0 {
		return s, errors.New("the key cannot be read")
	}
	s.key, s.mark = key, ssh.FingerprintSHA256(key)
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(name) {
		case "namespaces":
			s.namespaces = strings.Split(value, ",")
		case "valid-after":
			s.from, err = parseTime(value)
		case "valid-before":
			s.to, err = parseTime(value)
		default:
			err = fmt.Errorf("option %q is not supported", name)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// parseTime reads a time as ssh-keygen writes it: YYYYMMDD[HHMM[SS]], in the host's zone or, with Z, in UTC.
func parseTime(text string) (time.Time, error) {
	zone := time.Local
	digits, utc := strings.CutSuffix(text, "Z")
	if utc {
		zone = time.UTC
	}
	const layout = "20060102150405"
	if len(digits) == 8 || len(digits) == 12 || len(digits) == 14 {
		if t, err := time.ParseInLocation(layout[:len(digits)], digits, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("invalid time %q", text)
}

// unfit says why the line's key may not sign in a namespace at a time, empty if it may.
func (s *signer) unfit(namespace string, at time.Time) string {
	switch {
	case len(s.namespaces) > 0 && !slices.Contains(s.namespaces, namespace):
		return "its key is not for namespace " + namespace
	case !s.from.IsZero() && at.Before(s.from):
		return "its key is not valid yet"
	case !s.to.IsZero() && !at.Before(s.to):
		return "its key is no longer valid"
	}
	return ""
}
