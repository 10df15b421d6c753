//go:build linux

package procfs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// wait makes n reads of files of each user that do not return until release is closed.
func wait(t *testing.T, release chan struct{}, n int, uids ...uint32) {
	t.Helper()
	var leaving sync.WaitGroup
	for i := range n * len(uids) {
		leaving.Go(func() {
			uid := uids[i%len(uids)]
			_, err := Bounded(UserKey(strconv.Itoa(i)+" of "+strconv.Itoa(int(uid)), uid), func() (int, error) {
				<-release
				return 0, nil
			})
			if !errors.Is(err, ErrStuck) {
				t.Errorf("read %d of uid %d: %v", i, uid, err)
			}
		})
	}
	leaving.Wait()
}

// readable reads another file of a user.
func readable(uid uint32) bool {
	n, err := Bounded(UserKey("lngtest-another", uid), func() (int, error) { return 7, nil })
	return err == nil && n == 7
}

// One user's files that do not answer cost nobody else a read, and many users' cost root none.
func TestShares(t *testing.T) {
	release := make(chan struct{})
	wait(t, release, maxUIDLeft+1, 1000) // many may begin at once
	if readable(1000) {
		t.Error("a user with a full share waits for one read more")
	}
	if !readable(1001) || !readable(0) || !readable(unknown) {
		t.Error("reads of others are refused")
	}
	left.Lock()
	if n := left.uid[1000]; share(n) >= share(left.uid[1001]) || share(left.uid[1001]) != patience {
		t.Errorf("the patience with other users: %v", share(left.uid[1001]))
	}
	left.Unlock()
	wait(t, release, maxUIDLeft, 1001, 1002, 1003, 1004, 1005)
	if readable(2000) {
		t.Error("users together take more than their part")
	}
	if !readable(0) {
		t.Error("root's processes cannot be read")
	}
	close(release)
	require.Eventually(t, "no read that has returned counts", func() bool {
		left.Lock()
		defer left.Unlock()
		return left.n+len(left.by)+len(left.uid) == 0
	})
}

// A process counts for its user. A program that its user may not read is not dumpable, and most of its files are root's.
func TestOwner(t *testing.T) {
	require.Root(t)
	fs := FS("/proc")
	require.Equal(t, fs.Key(uint32(os.Getpid())).owner(), 0)
	dir, err := os.MkdirTemp("/tmp", "lngtest")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "sleep")
	program, err := os.ReadFile("/bin/sleep")
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o711), os.WriteFile(path, program, 0o711))
	}
	require.NoError(t, err)
	cmd := exec.Command(path, "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1234, Gid: 1234}}
	require.NoError(t, cmd.Start())
	pid := uint32(cmd.Process.Pid)
	var st unix.Stat_t
	if err := unix.Stat(fs.Path(pid, "environ"), &st); err != nil || st.Uid != 0 {
		t.Errorf("it is dumpable: %d %v", st.Uid, err)
	}
	require.Equal(t, fs.Key(pid).owner(), 1234)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	require.Equal(t, fs.Key(pid).owner(), unknown)
}
