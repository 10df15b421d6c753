//go:build linux

package boot

import (
	"cmp"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lineage-ebpf/lineage/internal/vm/guest"
)

// An Image is the guest's file system under construction.
type Image struct {
	dir string // which has it
	bin string // directory of built programs on the host
	err error  // the first one
}

// tools are the host's own programs that the tests call.
var tools = strings.Fields("sh bash cat chmod cp cut date dd echo env false getent grep head id kill ln ls mkdir mkfifo mount mv " +
	"nohup nsenter pkill ps rm sed seq setpriv setsid sleep sort stat tail test timeout touch tr true umount uname unshare wc")

// NewImage begins an image with vminit from the folder bin, and the tools of this system, or bin's busybox for another
// architecture.
func NewImage(bin string) *Image {
	dir, err := os.MkdirTemp("", "lngtest-image-")
	i := &Image{dir: dir, bin: bin, err: err}
	for _, name := range []string{"dev", "proc", "sys", "tmp", "run", "usr"} {
		i.fail(os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	i.File("init", filepath.Join(bin, "vminit"))
	i.write("etc/passwd", []byte("root:x:0:0:root:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"))
	i.write("etc/group", []byte("root:x:0:\nnogroup:x:65534:\n"))
	busybox := filepath.Join(bin, "busybox")
	if _, err := os.Stat(busybox); err == nil {
		i.File("bin/busybox", busybox)
		for _, name := range tools {
			i.fail(os.Symlink("busybox", filepath.Join(dir, "bin", name)))
		}
	} else {
		i.Programs(tools...)
	}
	i.fail(os.Symlink("../bin", filepath.Join(dir, "usr/bin")))
	return i
}

func (i *Image) fail(err error) { i.err = cmp.Or(i.err, err) }

// Programs adds programs of this system, which are in its PATH, to the image.
func (i *Image) Programs(names ...string) {
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			i.fail(err)
			continue
		}
		i.File("bin/"+name, path)
		i.libraries(path)
	}
}

// File adds a file of the host to the image, unless it is there.
func (i *Image) File(name, host string) {
	if _, err := os.Stat(filepath.Join(i.dir, name)); err == nil {
		return
	}
	body, err := os.ReadFile(host)
	i.fail(err)
	i.write(name, body)
}

func (i *Image) write(name string, body []byte) {
	path := filepath.Join(i.dir, name)
	i.fail(os.MkdirAll(filepath.Dir(path), 0o755))
	i.fail(os.WriteFile(path, body, 0o755))
}

// Tree adds a directory of the host to the image; a missing one is not an error.
func (i *Image) Tree(name, host string) {
	err := filepath.WalkDir(host, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(host, path)
		i.File(filepath.Join(name, rel), path)
		return err
	})
	if !os.IsNotExist(err) {
		i.fail(err)
	}
}

// Checkout adds what is built, and dirs of the checkout with their test data.
func (i *Image) Checkout(dirs ...string) {
	for _, program := range []string{"lineage", "lineage-mcp", "lineage-export", "lineage-link"} {
		i.File(filepath.Join(guest.Root, "bin", program), filepath.Join(i.bin, program))
	}
	i.Tree(guest.Root+"/bin/testdata", filepath.Join(i.bin, "testdata"))
	for _, dir := range dirs {
		i.fail(os.MkdirAll(filepath.Join(i.dir, guest.Root, dir), 0o755))
		i.Tree(filepath.Join(guest.Root, dir, "testdata"), filepath.Join(dir, "testdata"))
	}
}

// libraries adds the libraries of a dynamic program, where it looks for them.
func (i *Image) libraries(path string) {
	f, err := elf.Open(path)
	if err != nil {
		i.fail(err)
		return
	}
	defer f.Close()
	if f.Section(".interp") == nil {
		return
	}
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		i.fail(fmt.Errorf("ldd %s: %w", path, err))
		return
	}
	for line := range strings.Lines(string(out)) {
		for _, field := range strings.Fields(line) {
			if strings.HasPrefix(field, "/") {
				i.File(field, field)
			}
		}
	}
}

// Build returns the bytes of the image with its plan, and removes the files that it was made of.
func (i *Image) Build(plan guest.Plan) ([]byte, error) {
	defer os.RemoveAll(i.dir)
	text, err := json.Marshal(plan)
	i.fail(err)
	i.write(guest.PlanPath, text)
	if i.err != nil {
		return nil, fmt.Errorf("build the initramfs: %w", i.err)
	}
	return Pack(i.dir)
}
