package access

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/lineage-ebpf/lineage/daemon/system"
)

// OpenAuditFiles opens the files of the log at path, the oldest first. The daemon may rotate them meanwhile:
// each is read once, as they are opened from the newest on.
func OpenAuditFiles(path string) (files []AuditFile, done func(), err error) {
	var open []*os.File
	done = func() {
		for _, f := range open {
			f.Close()
		}
	}
	var last os.FileInfo
	for n, name := 0, path; ; n, name = n+1, fmt.Sprintf("%s.%d", path, n+1) {
		f, err := system.OpenFile(name, os.O_RDONLY)
		if n > 0 && errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			done()
			return nil, nil, fmt.Errorf("open audit log: %w", err)
		}
		open = append(open, f)
		info, err := f.Stat()
		if err != nil {
			done()
			return nil, nil, fmt.Errorf("open audit log: %w", err)
		}
		if last == nil || !os.SameFile(last, info) {
			files = append(files, AuditFile{Name: name, Reader: f})
		}
		last = info
	}
	slices.Reverse(files)
	return files, done, nil
}
