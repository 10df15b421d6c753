package tui

import "testing"

// The normal state has no letter, so that none comes a second after its row.
func TestLetters(t *testing.T) {
	for letter, want := range map[string]string{
		"R": "●R 4123 make", "D": "●D 4123 make", "T": "●T 4123 make", "t": "●t 4123 make",
		"S": "● 4123 make", "I": "● 4123 make", "RD": "● 4123 make", "\x1b": "● 4123 make", "": "● 4123 make",
	} {
		s := newScreen(t, newFake(), Options{}, 120, 30)
		s.opts.Tasks = nil
		f := scene()
		f.Upsert[3].Task = letter
		s.frames(f)
		s.says(want)
	}
	s := newScreen(t, newFake(), Options{}, 120, 30)
	s.frames(scene())
	s.says("● 4123 make")
	s.press("4 123 enter")
	s.says("● sleeping")
}
