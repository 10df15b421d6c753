package clients

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"
)

// Options that have a value of their own: docker's before the verb, and those of exec.
var (
	dockerOptions = options{"cHl", []string{"config", "context", "host", "log-level", "tlscacert", "tlscert", "tlskey"}}
	execOptions   = options{"euw", []string{"detach-keys", "env", "env-file", "user", "workdir"}}
)

// options are the letters and the names of options that have a value.
type options struct {
	short string
	long  []string
}

// skip returns what follows the options with which words begin.
func (o options) skip(words []string) []string {
	for len(words) > 0 && len(words[0]) > 1 && words[0][0] == '-' {
		w := words[0]
		words = words[1:]
		if w == "--" {
			break
		}
		name, long := strings.CutPrefix(w, "--")
		// The value of a letter is the rest of its word, unless that is empty.
		if (long && slices.Contains(o.long, name) || !long && strings.IndexAny(w, o.short) == len(w)-1) && len(words) > 0 {
			words = words[1:]
		}
	}
	return words
}

// execOf reads the command line of docker's client: the container, as it is named, and the command that exec has to run
// in it. The caller chooses its words: they are a claim.
func execOf(exe string, argv []string) (container string, command []string, ok bool) {
	if path.Base(exe) != "docker" || len(argv) == 0 {
		return "", nil, false
	}
	words := dockerOptions.skip(argv[1:])
	if len(words) > 0 && words[0] == "container" {
		words = words[1:]
	}
	if len(words) == 0 || words[0] != "exec" {
		return "", nil, false
	}
	words = execOptions.skip(words[1:])
	if len(words) < 2 || words[0] == "" {
		return "", nil, false
	}
	return words[0], words[1:], true
}

// sumOf names a command line: only sums are compared, so that none is kept. file is what was executed. Of a script, argv
// begins with its interpreter, and one option of that.
func sumOf(file string, argv []string) string {
	name := path.Base(file)
	for i := range argv[:min(len(argv), 3)] {
		if path.Base(argv[i]) == name {
			sum := sha256.Sum256([]byte(name + "\x00" + strings.Join(argv[i+1:], "\x00")))
			return hex.EncodeToString(sum[:])
		}
	}
	return ""
}
