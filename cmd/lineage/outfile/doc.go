// Package outfile writes files whose names a command line gave, also as root in directories
// of others. A name is looked up once and never again: the directory's owner may change what
// it means. Nothing is opened with other rights than those of the one user who is to write
// it, and no link is followed at the end of a name, so that nobody's file is written but one
// that this user could write. A regular file is replaced as a whole, or left as it was.
package outfile

// User is a user with whose rights a file is written.
type User struct {
	Name     string
	UID, GID int
	Groups   []int
}
