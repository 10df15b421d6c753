// Package keys has every key of `lineage top`, by focus. The footer, the help and
// docs/KEYS.md are made from it.
package keys
