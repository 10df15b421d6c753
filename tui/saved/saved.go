// Package saved stores how the reader arranged the view, from one run to the next.
package saved

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// State is what is stored.
type State struct {
	Sort    string   `json:"sort,omitempty"` // see picture.ParseSort
	Reverse bool     `json:"reverse,omitempty"`
	Exited  bool     `json:"exited,omitempty"`  // exited processes are shown
	Columns []string `json:"columns,omitempty"` // none: as many as fit
	Folds   []string `json:"folds,omitempty"`   // see picture.Folds
}

// most is the largest size of the file.
const most = 1 << 20

// File is the path of the state: below $XDG_STATE_HOME, else in the home directory. It
// is "" if neither is known.
func File(env func(string) string) string {
	dir := env("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		if dir = env("HOME"); !filepath.IsAbs(dir) {
			return ""
		}
		dir = filepath.Join(dir, ".local", "state")
	}
	return filepath.Join(dir, "lineage", "top.json")
}

// Load reads the file. If it does not exist, the State is zero.
func Load(file string) (s State, err error) {
	b, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return State{}, nil
	case err != nil:
		return State{}, fmt.Errorf("read: %w", err)
	case len(b) > most:
		return State{}, fmt.Errorf("read %s: more than %d bytes", file, most)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return State{}, fmt.Errorf("read %s: %w", file, err)
	}
	return s, nil
}

// Save writes the file completely or not at all. It writes nothing where another user
// could have replaced the path: this may run as root.
func Save(file string, s State) error {
	b, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	dir := filepath.Dir(file)
	if !ours(dir) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	f, err := os.CreateTemp(dir, ".top-*")
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// ours reports whether only root and we can change what is at a path: each existing
// part of it belongs to root or us. If we are root, to root alone.
func ours(path string) bool {
	for {
		if info, err := os.Lstat(path); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != 0 && int(st.Uid) != os.Geteuid() {
				return false
			}
		}
		up := filepath.Dir(path)
		if up == path {
			return true
		}
		path = up
	}
}
