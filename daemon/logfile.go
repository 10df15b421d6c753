//go:build linux

package daemon

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// maxLog is how large the log of a daemon may get that nobody's log has, in
// bytes.
const maxLog = 1 << 20

// logFile is a log that starts again when it is full.
type logFile struct {
	mu   sync.Mutex
	file *os.File
	size int64
}

func openLogFile(path string) (*logFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open log: %w", err)
	}
	return &logFile{file: f, size: info.Size()}, nil
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(p)) > maxLog {
		if err := l.file.Truncate(0); err != nil {
			return 0, err
		}
		l.size = 0
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *logFile) close() { l.file.Close() }
