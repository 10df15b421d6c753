// Package ink has what knows terminals, not processes: styled lines of a fixed width, frames, the colours and glyphs of each
// theme, and every key of `lineage top`.
//
// Its input text must be sanitised. The footer, the help and the keys in docs/TOP.md are made from its keys.
package ink
