//go:build linux

package instance

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openOwn opens a file of the instance, or makes it. The directory may be another user's: what is
// there could be a link to another file, or a FIFO, whose open would wait for a reader.
func openOwn(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &st)
	if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1) {
		err = fmt.Errorf("%s is not a regular file with one name", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
