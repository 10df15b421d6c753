package outfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A link with the name of the temporary file is not followed.
func TestTemporaryFile(t *testing.T) {
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(filepath.Join(dir, "r.json"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, f.tmp)); err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		out, err := f.Create()
		if err != nil {
			t.Fatal(err)
		}
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
