//go:build linux

package boot

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Pack makes an initramfs from directories, later ones over earlier ones. Everything belongs to root.
func Pack(dirs ...string) ([]byte, error) {
	var b bytes.Buffer
	a := newArchive(&b)
	a.char("dev/console", 5, 1) // init's first output
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || path == dir {
				return err
			}
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			return a.add(name, path, d)
		})
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", dir, err)
		}
	}
	if err := a.close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return b.Bytes(), nil
}

// add adds what is at path to the archive; sockets and the like are left out.
func (a *archive) add(name, path string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	permissions := int(info.Mode().Perm())
	if info.Mode()&fs.ModeSticky != 0 {
		permissions |= 0o1000
	}
	switch {
	case d.IsDir():
		a.entry(name, modeDir&^0o7777|permissions, nil, 0, 0)
	case d.Type()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		if err != nil {
			return err
		}
		a.link(name, to)
	case d.Type().IsRegular():
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		a.entry(name, modeFile&^0o7777|permissions, body, 0, 0)
	}
	return a.err
}
