//go:build linux

package procfstest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// Requests of the FUSE protocol, see linux/fuse.h.
const (
	Lookup = 1
	Open   = 14
	Flush  = 25

	getattr = 3
	initial = 26
)

// Server is a file system in which every name is a readable file.
type Server struct {
	// Asked gets the first request that is not answered.
	Asked  chan struct{}
	silent []uint32
}

// Serve mounts a server that never answers some kinds of request. It skips the test where that needs
// more than there is.
func Serve(t *testing.T, dir string, silent ...uint32) *Server {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs FUSE: %v", err)
	}
	dev := os.NewFile(uintptr(fd), "/dev/fuse")
	t.Cleanup(func() { dev.Close() })
	err = unix.Mount("lngtest", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd))
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODEV) {
		t.Skipf("needs FUSE: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	// With force the kernel fails all requests, so that who waits for one is released.
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH) })
	s := &Server{Asked: make(chan struct{}, 1), silent: silent}
	go s.serve(dev)
	return s
}

func (s *Server) serve(dev *os.File) {
	request := make([]byte, 256<<10)
	for {
		n, err := dev.Read(request)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) { // withdrawn
			continue
		}
		if err != nil {
			return // unmounted
		}
		if slices.Contains(s.silent, binary.LittleEndian.Uint32(request[4:])) {
			select {
			case s.Asked <- struct{}{}:
			default:
			}
			continue
		}
		if _, err := dev.Write(answer(request[:n])); err != nil && !errors.Is(err, unix.ENOENT) {
			return
		}
	}
}

// answer is the reply to a request. The protocol has the byte order of the host, and so have our hosts.
func answer(request []byte) []byte {
	le := binary.LittleEndian
	node := le.Uint64(request[16:])
	attr := func(b []byte, node uint64) {
		mode := uint32(unix.S_IFREG | 0o644)
		if node == 1 {
			mode = unix.S_IFDIR | 0o755
		}
		le.PutUint64(b, node)
		le.PutUint32(b[60:], mode)
		le.PutUint32(b[64:], 1) // links
	}
	var body []byte
	failure := int32(0)
	switch le.Uint32(request[4:]) {
	case initial:
		body = make([]byte, 64)
		le.PutUint32(body, 7) // version 7.31
		le.PutUint32(body[4:], 31)
		le.PutUint32(body[20:], 64<<10)
	case Lookup:
		body = make([]byte, 128)
		le.PutUint64(body, 2)
		attr(body[40:], 2)
	case getattr:
		body = make([]byte, 104)
		attr(body[16:], node)
	case Open:
		body = make([]byte, 16)
	default:
		failure = -int32(unix.ENOSYS)
	}
	reply := make([]byte, 16, 16+len(body))
	le.PutUint32(reply, uint32(16+len(body)))
	le.PutUint32(reply[4:], uint32(failure))
	copy(reply[8:], request[8:16])
	return append(reply, body...)
}

// Stuck starts a process whose exec waits for a server that does not answer when a file is closed. The
// kernel holds a lock of the process meanwhile.
func Stuck(t *testing.T) (pid uint32) {
	t.Helper()
	dir := t.TempDir()
	s := Serve(t, dir, Flush)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), stuckFile+"="+dir+"/file")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = unix.Unmount(dir, unix.MNT_FORCE)
		_ = cmd.Wait()
	})
	select {
	case <-s.Asked:
	case <-time.After(require.Slowed(10 * time.Second)):
		t.Fatal("its exec closed no file")
	}
	return uint32(cmd.Process.Pid)
}

// stuckFile names, to a process that Stuck started, the file that it has open when it execs.
const stuckFile = "LNGTEST_STUCK_FILE"

func init() {
	path := os.Getenv(stuckFile)
	if path == "" {
		return
	}
	f, err := os.Open(path) // close-on-exec
	if err == nil {
		err = unix.Exec("/bin/sleep", []string{"sleep", "60"}, nil)
		f.Close()
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
