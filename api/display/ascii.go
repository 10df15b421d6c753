package display

import (
	"cmp"
	"strings"
	"unicode/utf8"
)

// ASCIILocale reports whether the locale has no UTF-8. Without a locale the terminal
// may still have it, so it is false.
func ASCIILocale(env func(string) string) bool {
	locale := strings.ToLower(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")))
	return locale != "" && !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
}

// glyphs are ours, each with what stands for it in ASCII. "~/" would be a home directory.
var glyphs = strings.NewReplacer("…/", "*/", "·", "-", "—", "-", "─", "-", "×", "x",
	"…", "~", "└", "`", "├", "|", "│", "|", "●", "*", "○", "o", "↷", ">",
	"⚑", "!", "†", "x", "›", ">", "▾", "-", "▸", "+", "↑", "^", "↓", "v", "←",
	"<", "→", ">", "━", "=", "▶", ">", "•", ".",
	"┌", "+", "┐", "+", "┘", "+", "▼", "v", "⟨", "<", "⟩", ">",
	"▁", "_", "▂", ".", "▃", ":", "▄", "-", "▅", "=", "▆", "+", "▇", "*", "█", "#")

// ASCII is text with our glyphs in ASCII, as wide as before.
func ASCII(s string) string { return glyphs.Replace(s) }

// InLocale is s as the locale shows it: without UTF-8, one byte for each character.
func InLocale(env func(string) string, s string) string {
	if env == nil || !ASCIILocale(env) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			return r
		}
		return '?'
	}, ASCII(s))
}
