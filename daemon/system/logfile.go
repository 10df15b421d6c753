//go:build linux

package system

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// maxFile is the size limit of the log file of an ephemeral daemon, in bytes.
const maxFile = 1 << 20

// file is a log file that is emptied when it is full.
type file struct {
	mu   sync.Mutex
	file *os.File
	size int64
}

func openFile(path string) (*file, error) {
	// A FIFO there, which another user may have made, must not block the daemon.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open log: %w", err)
	}
	return &file{file: f, size: info.Size()}, nil
}

func (l *file) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(p)) > maxFile {
		if err := l.file.Truncate(0); err != nil {
			return 0, err
		}
		l.size = 0
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *file) close() { l.file.Close() }
