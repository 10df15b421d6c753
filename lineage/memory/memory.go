// Package memory counts what command lines and paths take in memory, and shares a bound of bytes among users.
package memory

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// ArgvSize is roughly the memory that a command line takes: its text, and for each argument
// a string's header of 16 bytes and a separator. 4,095 bytes of a command line may be 4,095 empty
// arguments, which take 68 KiB.
func ArgvSize(argv []string) int {
	n := 17 * len(argv)
	for _, arg := range argv {
		n += len(arg)
	}
	return n
}

// Where a command line is kept only to be shown, this much of it is.
const (
	shortWords = 32
	shortText  = 512
)

// ShortArgv returns the beginning of a command line, at most 32 arguments and 512 bytes of text, as
// a copy that shares no memory with it; cut: there is more.
func ShortArgv(argv []string) (short []string, cut bool) {
	if argv == nil {
		return nil, false
	}
	short = make([]string, 0, min(len(argv), shortWords))
	left := shortText
	for _, arg := range argv {
		if len(short) == shortWords || left == 0 {
			return short, true
		}
		n := min(len(arg), left)
		short = append(short, strings.Clone(arg[:n]))
		if left -= n; n < len(arg) {
			return short, true
		}
	}
	return short, false
}

// longPath is how much of a path is kept that is only shown and compared.
const longPath = 256

// ShortPath returns a path, or the beginning and the end of a long one, with a hash between them: two paths are
// the same if these are.
func ShortPath(path string) string {
	if len(path) <= longPath {
		return path
	}
	hash := fmt.Sprintf("...%.16x...", sha256.Sum256([]byte(path)))
	rest := (longPath - len(hash)) / 2
	return path[:rest] + hash + path[len(path)-rest:]
}

// Share divides a bound of memory among users. One of them may take what is free, and each of
// them an equal part of the bound, however much the others have taken. So the bound may be
// exceeded: by a half if a second user comes when the first has taken all of it, by a third more
// for a third one. Like a Graph it has a single owner.
type Share struct {
	bound int
	total int
	used  map[uint32]int // bytes, by uid
}

func NewShare(bound int) *Share { return &Share{bound: bound, used: make(map[uint32]int)} }

// Take books n bytes for a user; false: that is more than the user may have.
func (s *Share) Take(uid uint32, n int) bool {
	users := len(s.used)
	if s.used[uid] == 0 {
		users++
	}
	if s.total+n > s.bound && s.used[uid]+n > s.bound/users {
		return false
	}
	s.Book(uid, n)
	return true
}

// Book books n bytes, whether the user may have them or not; less than 0: they are free again.
func (s *Share) Book(uid uint32, n int) {
	s.total += n
	if s.used[uid] += n; s.used[uid] <= 0 {
		delete(s.used, uid)
	}
}

func (s *Share) Of(uid uint32) int { return s.used[uid] }

// Exceeds reports whether a user has more than an equal part of the bound.
func (s *Share) Exceeds(uid uint32) bool { return s.used[uid] > s.bound/max(1, len(s.used)) }

func (s *Share) Over() bool { return s.total > s.bound }

func (s *Share) Used() int { return s.total }
