package html

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// A link with the name of the temporary file is not followed.
func TestTemporaryFile(t *testing.T) {
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	f, err := OpenFile(filepath.Join(dir, "r.json"), nil)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, f.tmp)))
	require.ErrorIs(t, f.Write(func(io.Writer) error { return nil }), os.ErrExist, "created")
	if b, _ := os.ReadFile(secret); string(b) != "secret" {
		t.Errorf("written through the link: %q", b)
	}
}

// A file is replaced as a whole; after an error the old one stays, and no temporary file.
func TestPublish(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	failure := errors.New("lngtest")
	for _, tt := range []struct {
		text string
		err  error
		want string
	}{{"one", nil, "one"}, {"two", failure, "one"}, {"three", nil, "three"}} {
		f, err := OpenFile(name, nil)
		require.NoError(t, err)
		if err := f.Write(func(w io.Writer) error { _, err := io.WriteString(w, tt.text); return cmp.Or(tt.err, err) }); !errors.Is(err, tt.err) {
			t.Errorf("%s: %v", tt.text, err)
		}
		if b, _ := os.ReadFile(name); string(b) != tt.want {
			t.Errorf("%q, want %q", b, tt.want)
		}
		if all, _ := os.ReadDir(dir); len(all) != 1 {
			t.Errorf("beside it: %v", all)
		}
	}
}

// A descriptor that was inherited is written to; one of ours is refused by its number.
func TestOwnDescriptor(t *testing.T) {
	ours, err := os.Create(filepath.Join(t.TempDir(), "ours"))
	require.NoError(t, err)
	defer ours.Close()
	name := fmt.Sprintf("/dev/fd/%d", ours.Fd())
	if f, err := OpenFile(name, nil); !errors.Is(err, unix.EBADF) {
		t.Errorf("opened: %+v, %v", f, err)
	}
	_, err = unix.FcntlInt(ours.Fd(), unix.F_SETFD, 0)
	require.NoError(t, err)
	f, err := OpenFile(name, nil)
	require.NoError(t, err)
	f.out.Close()
}

// The user writes where one of its groups may write, and not where a group of ours may.
func TestGroups(t *testing.T) {
	require.Root(t)
	const nobody, group, ours = 65534, 54321, 54322
	top := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(top), 0o755))
	before, err := unix.Getgroups()
	require.NoError(t, err)
	require.NoError(t, unix.Setgroups([]int{ours}))
	defer unix.Setgroups(before)
	for gid, want := range map[int]error{group: nil, ours: unix.EACCES} {
		dir := filepath.Join(top, strconv.Itoa(gid))
		require.NoError(t, os.Mkdir(dir, 0o755), os.Chown(dir, 0, gid), os.Chmod(dir, 0o775))
		who := &User{Name: "nobody", UID: nobody, GID: nobody, Groups: []int{group}}
		if _, err := OpenFile(filepath.Join(dir, "f"), who); !errors.Is(err, want) {
			t.Errorf("in a directory of group %d: %v, want %v", gid, err, want)
		}
	}
}
