package display

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lineage-ebpf/lineage/api"
)

// CommandBytes bounds a command unless all of it is wanted: a process may have
// megabytes of arguments.
const CommandBytes = 4096

// Command shows what a process runs, as one would type it: sanitised, and cut
// after limit bytes of arguments (0: never). Empty arguments at the end are left
// out: a process that sets its title has them.
func Command(argv []string, comm string, truncated bool, limit int) string {
	argv = withoutPadding(argv)
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

// longPath is how long a path may be before Brief leaves out its directories.
const longPath = 20

// Brief shows a command where there is little room: the name of its program and, if that is
// an interpreter, of its script, without their directories; then its arguments, long
// absolute paths as "…/" and their last element. A process that goes by another name than
// its program and its script has that first: "vite · python3 srv.py". Otherwise it is as
// Command, of what is in [api.Unwrapped].
func Brief(argv []string, comm string, truncated bool, limit int) string {
	argv = api.Unwrapped(withoutPadding(argv))
	if len(argv) == 0 {
		return Command(nil, comm, truncated, limit)
	}
	program := programName(argv[0], comm)
	first := 1 + slices.IndexFunc(argv[1:], func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	named := comm == "" || namesThread(comm) || alike(strings.TrimPrefix(program, "-"), comm)
	script := 0
	if first > 0 && !strings.ContainsAny(argv[first], notInPath) {
		called := alike(lastElement(argv[first]), comm)
		if called || slices.Contains(interpreters, strings.Trim(program, "-.0123456789")) {
			script = first
		}
		named = named || called
	}
	words := make([]string, 0, len(argv))
	for i, n := 0, 0; i < len(argv) && (limit <= 0 || n <= limit); i++ {
		word := program
		switch {
		case i > 0 && i == script:
			word = lastElement(argv[i])
		case i > 0:
			word = briefPath(argv[i])
		}
		words = append(words, word)
		n += len(word) + 1
	}
	s := Command(words, comm, truncated || len(words) < len(argv), limit)
	if len(argv) == 1 && strings.Contains(program, " ") &&
		(limit <= 0 || len(program) <= limit) && !truncated {
		s = Text(program) // a title: its blanks separate no arguments
	}
	if !named {
		s = Text(comm) + " · " + s
	}
	return s
}

// interpreters are programs whose first argument is usually a script, without versions.
var interpreters = []string{"sh", "ash", "bash", "dash", "fish", "ksh", "zsh", "bun",
	"lua", "node", "nodejs", "perl", "php", "pypy", "python", "ruby"}

// notInPath are characters of an argument that is more than a path.
const notInPath = " \t\n:,;=|&<>"

// programName is argv[0] without directories. A process may have set it to a title: of
// that only the first word is a path.
func programName(arg, comm string) string {
	first, rest, several := strings.Cut(arg, " ")
	if !several || strings.HasPrefix(arg, "/") && lastElement(arg) == comm {
		return lastElement(arg)
	}
	return lastElement(first) + " " + rest
}

// lastElement is the last element of a path, with the slash that ends a directory.
func lastElement(path string) string {
	return path[strings.LastIndexByte(strings.TrimRight(path, "/"), '/')+1:]
}

// briefPath leaves out the directories of a long absolute path with which an argument
// begins.
func briefPath(arg string) string {
	path, rest := arg, ""
	if i := strings.IndexAny(arg, " \t\n"); i >= 0 {
		path, rest = arg[:i], arg[i:]
	}
	if !strings.HasPrefix(path, "/") || len(path) <= longPath || strings.ContainsAny(path, notInPath) {
		return arg
	}
	return "…/" + lastElement(path) + rest
}

// commBytes is how much of a name the kernel keeps.
const commBytes = 15

// alike reports whether two names are the same but for a version, a title or what the
// kernel has cut: python3 and python3.11, nginx and "nginx: worker process".
func alike(name, comm string) bool {
	if len(comm) >= commBytes && strings.HasPrefix(name, comm) {
		return true
	}
	short, long := name, comm
	if len(short) > len(long) {
		short, long = long, short
	}
	next, _ := utf8.DecodeRuneInString(strings.TrimPrefix(long, short))
	return short != "" && strings.HasPrefix(long, short) && (short == long || !unicode.IsLetter(next))
}

// Name is the short name of a process, without its arguments.
func Name(p *api.Process) string {
	argv := withoutPadding(p.Argv)
	switch {
	case namesThread(p.Comm) && len(argv) > 0:
		return Text(programName(argv[0], p.Comm))
	case p.Comm == "":
		return "?"
	}
	return Text(p.Comm)
}

// namesThread reports whether comm is the name of a main thread and not of a program, as
// in node.
func namesThread(comm string) bool {
	return strings.HasSuffix(strings.ToLower(comm), "mainthread")
}

// InContainer adds the container of a process, if it is in one, to its command.
func InContainer(command string, c *api.Container) string {
	if c == nil {
		return command
	}
	return command + " in container " + Container(c)
}

// Container is what people call a container: its name, with that of the pod before it, else the beginning of its id; "" if
// there is none.
func Container(c *api.Container) string { return Text(c.String()) }

// Began is what the root of a session began it with, for Command and Brief. Its name then is not
// known if it runs another program now.
func Began(root *api.Process) (argv []string, comm string, truncated bool) {
	if len(root.FirstArgv) > 0 {
		return root.FirstArgv, "", false
	}
	return root.Argv, root.Comm, root.ArgvTruncated
}

// withoutPadding is argv without empty arguments at its end.
func withoutPadding(argv []string) []string {
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
	special := func(r rune) bool {
		return r < 0x80 && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_@%+=:,./-", r)
	}
	if arg != "" && !strings.ContainsFunc(arg, special) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// Facts say in a list what each report of a process tells.
func Facts(p *api.Process) (words []string) {
	if p.UID != nil {
		words = append(words, fmt.Sprintf("uid %d", *p.UID))
	}
	return words
}
