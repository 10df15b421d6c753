// Package ink draws: styled lines of a fixed width, frames with titles, and the colours
// and glyphs of each theme. It knows terminals, not processes. Its input text must be
// sanitised.
package ink
