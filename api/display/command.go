package display

import (
	"strings"
	"unicode/utf8"
)

// CommandBytes bounds a command unless all of it is wanted: a process may have
// megabytes of arguments.
const CommandBytes = 4096

// Command shows what a process runs, as one would type it: sanitised, and cut
// after limit bytes of arguments (0: never). Empty arguments at the end are left
// out: a process that sets its title has them.
func Command(argv []string, comm string, truncated bool, limit int) string {
	argv = WithoutPadding(argv)
	if len(argv) == 0 {
		if comm == "" {
			return "?"
		}
		return Text(comm)
	}
	var b strings.Builder
	for i, arg := range argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		if limit > 0 && b.Len()+len(arg) > limit {
			b.WriteString(quote(start(arg, limit-b.Len())))
			truncated = true
			break
		}
		b.WriteString(quote(arg))
	}
	s := Text(b.String())
	if truncated {
		s += "…"
	}
	return s
}

// WithoutPadding is argv without empty arguments at its end.
func WithoutPadding(argv []string) []string {
	for len(argv) > 1 && argv[len(argv)-1] == "" {
		argv = argv[:len(argv)-1]
	}
	return argv
}

// start is the first n bytes of s at most, without half a rune at its end.
func start(s string, n int) string {
	for n = max(n, 0); n > 0 && n < len(s) && !utf8.RuneStart(s[n]); n-- {
	}
	return s[:min(n, len(s))]
}

func quote(arg string) string {
	plainWord := func(r rune) bool {
		return r >= 0x80 || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_@%+=:,./-", r)
	}
	if arg != "" && strings.IndexFunc(arg, func(r rune) bool { return !plainWord(r) }) < 0 {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
