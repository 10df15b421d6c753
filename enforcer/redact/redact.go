// Package redact hides secrets in command lines, for everything that stores them or
// passes them on: the history, the audit log, the exporter.
package redact

import (
	"bytes"
	"path"
	"regexp"
	"strings"
	"sync"
)

const Hidden = "[redacted]"

// TokenName is the variable with a secret of the session, which `lineage run` gives to its members.
const TokenName = "LINEAGE_TOKEN"

const secretName = `[\w.-]*(?:token|key|secret|passwd|password|passphrase)[\w.-]*`

// Expression compiles expr at its first use, because most commands need none.
func Expression(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// secretFlag is an option whose value is the next argument.
var secretFlag = Expression(`(?i)^--?` + secretName + `$`)

// wholeArg is an argument whose value, after the separator, is all secret, spaces
// included.
var wholeArg = Expression(`(?is)^(-{0,2}` + secretName + `[=:])(.+)$`)

// builtInSecrets are searched inside an argument; the group is the secret.
var builtInSecrets = []func() *regexp.Regexp{
	Expression(`(?i)` + secretName + `["']?\s*[=:]\s*["']?([^\s"']+)`),
	Expression(`(?i)(?:^|\s)--?` + secretName + `\s+["']?([^\s"'-][^\s"']*)`),
	Expression(`(?i)\b(?:bearer|basic)\s+([\w.~+/=-]{8,})`),
	Expression(`://[^\s/@:]*:([^\s/@]+)@`),
	Expression(`(?s)\bcurl\s(?:.*?\s)?(?:-[a-zA-Z]*[uU]|--(?:proxy-)?user)[\s=]?["']?[^\s:"'-][^\s:"']*:([^\s"']+)`),
	Expression(`(?s)\b(?:mysql|mariadb)\w*\s(?:.*?\s)?-p["']?([^\s"']+)`),
	Expression(`(?s)\bsshpass\s+-p\s*["']?([^\s"']+)`),
	Expression(`\b((?:sk-|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abprs]-|AKIA)[\w-]{12,})`),
}

// secretsOf are arguments that are secrets only for programs whose name begins with
// program. The expression is applied to the previous argument, a NUL and the argument
// itself; its group is the secret and reaches to the end of the argument.
var secretsOf = []struct {
	program string
	secret  func() *regexp.Regexp
}{
	{"curl", Expression(`(?s)(?:^(?:-[a-zA-Z]*[uU]|--(?:proxy-)?user)\x00|\x00(?:-[a-zA-Z]*?[uU]|--(?:proxy-)?user=))[^:\x00]*:(.+)$`)},
	{"mysql", Expression(`(?s)\x00-p(.+)$`)},
	{"mariadb", Expression(`(?s)\x00-p(.+)$`)},
	{"sshpass", Expression(`(?s)(?:^-p\x00|\x00-p)(.+)$`)},
}

// Argv hides secrets in an argv: values of options and names that mention a token, key, secret or
// password, known forms of credentials, the passwords that curl, mysql and sshpass take, and what
// the policy's own expressions match. The result has the same number of arguments; argv is not
// changed. It hides too much rather than too little.
func Argv(argv []string, own ...*regexp.Regexp) []string {
	if argv == nil {
		return nil
	}
	out := make([]string, len(argv))
	next := false
	for i, arg := range argv {
		switch m := wholeArg().FindStringSubmatch(arg); {
		case next && !strings.HasPrefix(arg, "-"):
			out[i] = Hidden
		case m != nil:
			out[i] = m[1] + Hidden
		default:
			one := []string{arg}
			for _, re := range builtInSecrets {
				one = hide(re(), one)
			}
			out[i] = one[0]
		}
		next = secretFlag().MatchString(arg)
	}
	for _, s := range secretsOf {
		if len(argv) == 0 || !strings.HasPrefix(path.Base(argv[0]), s.program) {
			continue
		}
		for i := 1; i < len(argv); i++ {
			if m := s.secret().FindStringSubmatch(argv[i-1] + "\x00" + argv[i]); m != nil {
				out[i] = strings.TrimSuffix(argv[i], m[1]) + Hidden
			}
		}
	}
	for _, re := range own {
		out = hide(re, out)
	}
	return out
}

// hide hides what re matches in the arguments, joined by a space; if groups took part
// in a match, only the first of them.
func hide(re *regexp.Regexp, argv []string) []string {
	line := strings.Join(argv, " ")
	found := re.FindAllStringSubmatchIndex(line, -1)
	if found == nil {
		return argv
	}
	secret := make([]bool, len(line))
	for _, m := range found {
		from, to := m[0], m[1]
		for g := 2; g < len(m); g += 2 {
			if m[g] >= 0 {
				from, to = m[g], m[g+1]
				break
			}
		}
		for i := from; i < to; i++ {
			secret[i] = true
		}
	}
	out := make([]string, len(argv))
	at := 0
	for i, arg := range argv {
		var b strings.Builder
		for j := range len(arg) {
			switch {
			case !secret[at+j]:
				b.WriteByte(arg[j])
			case j == 0 || !secret[at+j-1]:
				b.WriteString(Hidden)
			}
		}
		out[i] = b.String()
		at += len(arg) + 1
	}
	return out
}

// Token overwrites the session's token in a command line, in place: a token that is passed
// as an argument would be shown with the command.
func Token(argv []byte) {
	for {
		_, value, ok := bytes.Cut(argv, []byte(TokenName+"="))
		if !ok {
			return
		}
		argv = bytes.TrimLeft(value, `'"`)
		for i := 0; i < len(argv) && isTokens(argv[i]); i++ {
			argv[i] = '*'
		}
	}
}

func isTokens(c byte) bool { return c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }
