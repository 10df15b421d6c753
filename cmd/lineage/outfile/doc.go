// Package outfile writes files whose names a command line gave, also as root in directories
// of others. A name is looked up only once: the directory's owner may change what it means.
// Every file is opened with the rights of the one user who is to write it, and a link at the
// end of a name is not followed: so only a file that this user could write is ever written.
// A regular file is replaced as a whole, or left as it was.
package outfile

// User is a user with whose rights a file is written.
type User struct {
	Name     string
	UID, GID int
	Groups   []int
}
