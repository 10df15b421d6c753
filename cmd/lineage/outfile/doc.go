// Package outfile writes files whose names a command line gave, also as root in directories
// of others. A name is looked up only once: the directory's owner may change what it means.
// Every file is opened with the rights of the one user who is to write it, and a link at the
// end of a name is not followed: so only a file that this user could write is ever written.
// A regular file is replaced as a whole, or left as it was.
package outfile

import "io"

// User is a user with whose rights a file is written.
type User struct {
	Name     string
	UID, GID int
	Groups   []int
}

// Write writes the file, so that a reader of a regular one sees all of it or nothing. It may block
// while no process reads the other end of a FIFO.
func (f *File) Write(write func(io.Writer) error) error {
	out, err := f.Create()
	if err != nil {
		return err
	}
	return f.Publish(out, write(out))
}
