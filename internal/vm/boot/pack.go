//go:build linux

package boot

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Pack makes an initramfs from directories, later ones over earlier ones, by cpio(1): the kernel unpacks one archive
// after the other. Everything belongs to root. Sockets are left out.
func Pack(dirs ...string) ([]byte, error) {
	first, err := os.MkdirTemp("", "lngtest-console-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(first)
	console := filepath.Join(first, "dev/console") // init's first output
	if err := cmp.Or(os.Mkdir(filepath.Dir(console), 0o755),
		unix.Mknod(console, unix.S_IFCHR|0o600, int(unix.Mkdev(5, 1)))); err != nil {
		return nil, err
	}
	var all bytes.Buffer
	for _, dir := range append([]string{first}, dirs...) {
		pack := exec.Command("sh", "-c",
			"find . -mindepth 1 ! -type s -print0 | cpio -0 -o -H newc -R 0:0 --quiet")
		pack.Dir, pack.Stdout, pack.Stderr = dir, &all, os.Stderr
		if err := pack.Run(); err != nil {
			return nil, fmt.Errorf("pack %s: %w", dir, err)
		}
	}
	return all.Bytes(), nil
}
