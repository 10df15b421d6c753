package policy

import (
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/enforcer/redact"
)

// value is a type that one word in the file is read into.
type value interface {
	set(text string) *wrong
	String() string
}

// Duration is a time span as Go writes it: 500ms, 30s, 1h30m, or 0.
type Duration time.Duration

func (d *Duration) set(text string) *wrong {
	v, err := time.ParseDuration(text)
	if err != nil {
		w := &wrong{what: fmt.Sprintf("invalid duration %q", text), hint: "use 500ms, 30s or 1h30m"}
		if _, err := strconv.ParseUint(text, 10, 32); err == nil {
			w.what, w.hint = fmt.Sprintf("the duration %s has no unit",
				text), fmt.Sprintf("did you mean %ss?", text)
		}
		return w
	}
	if v < 0 {
		return &wrong{fmt.Sprintf("%s is negative", text), "must be 0 or more"}
	}
	*d = Duration(v)
	return nil
}

func (d Duration) String() string {
	if d == 0 {
		return "0"
	}
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(time.Duration(d).String())
}

func (d Duration) Std() time.Duration { return time.Duration(d) }

// Size is a number of bytes: 512MiB, 8GiB, or 0.
type Size uint64

var sizeUnits = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}

func (s *Size) set(text string) *wrong {
	digits := strings.TrimRight(text, "BKMGTPEibkmgtpe")
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return &wrong{fmt.Sprintf("invalid size %q", text), "use 512MiB or 8GiB"}
	}
	unit := text[len(digits):]
	if unit == "" && n == 0 {
		*s = 0
		return nil
	}
	for i, u := range sizeUnits {
		if u != unit {
			continue
		}
		high, low := bits.Mul64(n, 1<<(10*i))
		if high != 0 {
			return &wrong{fmt.Sprintf("the size %s is too large", text), "must be at most 16383PiB"}
		}
		*s = Size(low)
		return nil
	}
	if unit == "" {
		return &wrong{fmt.Sprintf("the size %s has no unit", text), fmt.Sprintf("did you mean %sMiB?", text)}
	}
	hint := "units are B, KiB, MiB, GiB, TiB and PiB"
	if i := strings.IndexByte("KMGTP", strings.ToUpper(unit)[0]); i >= 0 {
		hint = fmt.Sprintf("did you mean %s%s?", digits, sizeUnits[i+1])
	}
	return &wrong{fmt.Sprintf("the size %s has an unknown unit", text), hint}
}

func ParseSize(text string) (s Size, ok bool) {
	w := s.set(text)
	return s, w == nil
}

func (s Size) String() string {
	if s == 0 {
		return "0"
	}
	n, i := uint64(s), 0
	for n%1024 == 0 && i < len(sizeUnits)-1 {
		n, i = n/1024, i+1
	}
	return strconv.FormatUint(n, 10) + sizeUnits[i]
}

// CPUs is a number of CPUs, in thousandths: 2.5, or 0.
type CPUs uint64

func (c *CPUs) set(text string) *wrong {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n < 1e9) {
		return &wrong{fmt.Sprintf("invalid number of CPUs %q", text), "use 2 or 2.5"}
	}
	*c = CPUs(math.Round(n * 1000))
	return nil
}

func (c CPUs) String() string { return strconv.FormatFloat(float64(c)/1000, 'f', -1, 64) }

type Pattern struct{ re *regexp.Regexp }

func (p *Pattern) set(text string) *wrong {
	if len(text) > 1000 {
		return &wrong{"the expression is longer than 1000 bytes", ""}
	}
	re, err := regexp.Compile(text)
	switch {
	case err != nil:
		return &wrong{fmt.Sprintf("invalid RE2 expression %q: %s", text,
			strings.TrimPrefix(err.Error(), "error parsing regexp: ")), ""}
	case re.MatchString(""):
		return &wrong{fmt.Sprintf("the expression %q matches everything", text),
			"use one that does not match an empty text"}
	}
	p.re = re
	return nil
}

func (p Pattern) String() string { return p.re.String() }

func (p Pattern) matches(text string) bool { return p.re.MatchString(text) }

// Glob is a pattern for absolute paths: * and ? stop at a slash, ** does not,
// [a-z] and [!a-z] are sets.
type Glob struct {
	text string
	re   *regexp.Regexp
}

func (g *Glob) set(text string) *wrong {
	switch {
	case len(text) > 4096:
		return &wrong{"the path is longer than 4096 bytes", ""}
	case !strings.HasPrefix(text, "/"):
		return &wrong{fmt.Sprintf("path %q is not absolute", text),
			fmt.Sprintf("did you mean %q?", "/**/"+text)}
	}
	return g.compile(text)
}

// NameGlob is a pattern for names, as Glob is for paths.
type NameGlob struct{ Glob }

func (g *NameGlob) set(text string) *wrong {
	if text == "" || len(text) > 256 {
		return &wrong{"a name has 1 to 256 bytes", ""}
	}
	return g.compile(text)
}

// PairGlob is one for NAME=VALUE.
type PairGlob struct{ Glob }

func (g *PairGlob) set(text string) *wrong {
	switch {
	case len(text) > 4096:
		return &wrong{"the text is longer than 4096 bytes", ""}
	case strings.HasPrefix(text, "="):
		return &wrong{fmt.Sprintf("%q has no name", text), "use NAME=VALUE"}
	case !strings.Contains(text, "="):
		return &wrong{fmt.Sprintf("%q has no value", text), fmt.Sprintf("did you mean %q?", text+"=**")}
	}
	return g.compile(text)
}

func (g *Glob) compile(text string) *wrong {
	var re strings.Builder
	re.WriteString(`(?s)\A`)
	for i := 0; i < len(text); {
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, "**"):
			re.WriteString(".*")
			i += 2
			continue
		case rest[0] == '*':
			re.WriteString("[^/]*")
		case rest[0] == '?':
			re.WriteString("[^/]")
		case rest[0] == '[':
			set, n := globSet(rest)
			if n == 0 {
				return &wrong{fmt.Sprintf("the set in %q is not closed", text), `write \[ for a bracket`}
			}
			re.WriteString(set)
			i += n
			continue
		case rest[0] == '\\' && len(rest) > 1:
			re.WriteString(regexp.QuoteMeta(rest[1:2]))
			i += 2
			continue
		default:
			re.WriteString(regexp.QuoteMeta(rest[:1]))
		}
		i++
	}
	re.WriteString(`\z`)
	compiled, err := regexp.Compile(re.String())
	if err != nil {
		return &wrong{fmt.Sprintf("invalid glob %q", text), "use *, **, ? or [a-z]"}
	}
	*g = Glob{text, compiled}
	return nil
}

// globSet translates a set; n is its length, 0 if it does not end.
func globSet(text string) (re string, n int) {
	end := strings.IndexByte(text[1:], ']')
	if end <= 0 {
		return "", 0
	}
	body := text[1 : 1+end]
	not := ""
	if body[0] == '!' || body[0] == '^' {
		not, body = "^/", body[1:]
	}
	if body == "" {
		return "", 0
	}
	return "[" + not + strings.NewReplacer(`\`, `\\`, "[", `\[`, "^", `\^`).Replace(body) + "]", end + 2
}

func mustGlob(text string) (g Glob) {
	if w := g.set(text); w != nil {
		panic(w.what) // a built-in glob
	}
	return g
}

func (g Glob) String() string { return g.text }

func (g Glob) matches(text string) bool { return g.re.MatchString(text) }

// Until is the end of a day, or a moment.
type Until struct {
	text string
	at   time.Time
}

func (u *Until) set(text string) *wrong {
	if day, err := time.ParseInLocation(time.DateOnly, text, time.UTC); err == nil {
		*u = Until{text, day.AddDate(0, 0, 1)}
		return nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return &wrong{fmt.Sprintf("invalid date or time %q", text), "use 2027-06-30 or 2027-06-30T12:00:00Z"}
	}
	*u = Until{text, at}
	return nil
}

func (u Until) String() string { return u.text }

// Time is the moment when it is over. A date is over at its end, in UTC.
func (u Until) Time() time.Time { return u.at }

// forms are the additional rules for strings.
var forms = map[string]struct {
	re    func() *regexp.Regexp
	bytes int // maximum; 0: the expression limits it
	what  string
}{
	"name": {redact.Expression(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`), 0,
		"a letter or digit, then up to 63 of A-Z a-z 0-9 . _ -"},
	"comm": {redact.Expression(`^.+$`), 15, "a name of at most 15 bytes, as in /proc/PID/comm"},
	"user": {redact.Expression(`^([A-Za-z_][A-Za-z0-9._-]{0,30}\$?|[0-9]{1,10})$`),
		0, "a user's name or number"},
	"text": {redact.Expression(`^.*\S.*$`), 0, "a line of text"},
}
