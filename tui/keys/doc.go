// Package keys has every key of `lineage top`, by what has the focus. The footer,
// the help and docs/KEYS.md are made of it.
package keys
