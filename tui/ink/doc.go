// Package ink draws: styled lines of a fixed width, frames with titles, and the colours and glyphs of each theme. It
// knows terminals, not processes. Its input text must be sanitised. It has every key of `lineage top`, by focus: the
// footer, the help and the keys in docs/TOP.md are made from them.
package ink
