package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A file is named as the caller sees it: resolved, with what stat says of it.
func TestWhyPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, link := filepath.Join(dir, "80"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("80", link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, arg := range []string{file, link, "./80", "link", dir + "/../" + filepath.Base(dir) + "/80"} {
		f := newFake()
		if code, _, stderr := newWorld(t, f).run("why", arg); code != 0 || f.asked.Path != file || f.asked.Inode == 0 {
			t.Errorf("why %s: exit %d, asked for %+v, %s", arg, code, f.asked, stderr)
		}
	}
	f := newFake()
	if code, _, _ := newWorld(t, f).run("why", "gone"); code != 0 || f.asked.Path != filepath.Join(dir, "gone") || f.asked.Inode != 0 {
		t.Errorf("a file that is gone: exit %d, asked for %+v", code, f.asked)
	}
}
