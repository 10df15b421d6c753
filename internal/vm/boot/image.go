//go:build linux

package boot

import (
	"bytes"
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
	archive
	bin   string // directory of built programs on the host
	data  bytes.Buffer
	added map[string]bool
}

// tools are the host's own programs that the tests call.
var tools = strings.Fields("sh bash cat chmod cp cut date dd echo env false getent grep head id kill ln ls mkdir mkfifo mount mv " +
	"nohup nsenter pkill ps rm sed seq setpriv setsid sleep sort stat tail test timeout touch tr true umount uname unshare wc")

// NewImage begins an image with vminit from the folder bin, and the tools of this system, or bin's busybox for another
// architecture.
func NewImage(bin string) *Image {
	i := &Image{bin: bin, added: map[string]bool{}}
	i.archive = *newArchive(&i.data)
	for _, dir := range []string{"dev", "proc", "sys", "tmp", "run", "bin", "usr"} {
		i.dir(dir)
	}
	i.char("dev/console", 5, 1) // init's first output
	i.link("usr/bin", "/bin")
	i.File("init", filepath.Join(bin, "vminit"))
	i.file("etc/passwd", []byte("root:x:0:0:root:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"))
	i.file("etc/group", []byte("root:x:0:\nnogroup:x:65534:\n"))
	busybox := filepath.Join(bin, "busybox")
	if _, err := os.Stat(busybox); err == nil {
		i.File("bin/busybox", busybox)
		for _, name := range tools {
			i.link("bin/"+name, "busybox")
		}
		return i
	}
	i.Programs(tools...)
	return i
}

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

// File adds a file of the host to the image.
func (i *Image) File(name, host string) {
	if i.added[name] {
		return
	}
	i.added[name] = true
	body, err := os.ReadFile(host)
	if err != nil {
		i.fail(err)
		return
	}
	i.file(name, body)
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
	if err != nil && !os.IsNotExist(err) {
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
		at := filepath.Join(guest.Root, dir)
		i.dir(at)
		i.Tree(filepath.Join(at, "testdata"), filepath.Join(dir, "testdata"))
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

// Build closes the image with its plan and returns its bytes.
func (i *Image) Build(plan guest.Plan) ([]byte, error) {
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	i.file(guest.PlanPath, text)
	if err := i.close(); err != nil {
		return nil, fmt.Errorf("build the initramfs: %w", err)
	}
	return i.data.Bytes(), nil
}
