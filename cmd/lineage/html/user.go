package html

// User is a user with whose rights a file is written.
type User struct {
	Name     string
	UID, GID int
	Groups   []int
}
