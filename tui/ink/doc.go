// Package ink draws: styled lines of a fixed width, frames with titles, and the
// colours and glyphs of each theme. It knows terminals and no processes. Text that
// it is given must be sanitised.
package ink
