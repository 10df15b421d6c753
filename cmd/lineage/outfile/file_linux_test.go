package outfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// A link with the name of the temporary file is not followed.
func TestTemporaryFile(t *testing.T) {
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("secret"), 0o600))
	f, err := Open(filepath.Join(dir, "r.json"), nil)
	must(t, err)
	must(t, os.Symlink(secret, filepath.Join(dir, f.tmp)))
	if _, err := f.Create(); !errors.Is(err, os.ErrExist) {
		t.Errorf("created: %v", err)
	}
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
		f, err := Open(name, nil)
		must(t, err)
		out, err := f.Create()
		must(t, err)
		if _, err := out.WriteString(tt.text); err != nil {
			t.Fatal(err)
		}
		if err := f.Publish(out, tt.err); !errors.Is(err, tt.err) {
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
	must(t, err)
	defer ours.Close()
	name := fmt.Sprintf("/dev/fd/%d", ours.Fd())
	if f, err := Open(name, nil); !errors.Is(err, unix.EBADF) {
		t.Errorf("opened: %+v, %v", f, err)
	}
	if _, err := unix.FcntlInt(ours.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	f, err := Open(name, nil)
	must(t, err)
	f.out.Close()
}

// The user writes where one of its groups may write, and not where a group of ours may.
func TestGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const nobody, group, ours = 65534, 54321, 54322
	top := t.TempDir()
	must(t, os.Chmod(filepath.Dir(top), 0o755))
	before, err := unix.Getgroups()
	must(t, err)
	must(t, unix.Setgroups([]int{ours}))
	defer unix.Setgroups(before)
	for gid, want := range map[int]error{group: nil, ours: unix.EACCES} {
		dir := filepath.Join(top, strconv.Itoa(gid))
		must(t, os.Mkdir(dir, 0o755), os.Chown(dir, 0, gid), os.Chmod(dir, 0o775))
		who := &User{Name: "nobody", UID: nobody, GID: nobody, Groups: []int{group}}
		if _, err := Open(filepath.Join(dir, "f"), who); !errors.Is(err, want) {
			t.Errorf("in a directory of group %d: %v, want %v", gid, err, want)
		}
	}
}

// must fails the test at the first error.
func must(t testing.TB, all ...error) {
	t.Helper()
	for _, err := range all {
		if err != nil {
			t.Fatal(err)
		}
	}
}
