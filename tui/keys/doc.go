// Package keys has every key of `lineage top`, by focus. The footer, the help and
// the keys in docs/TOP.md are made from it.
package keys
