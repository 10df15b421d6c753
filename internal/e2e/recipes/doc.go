// Package recipes runs what docs/RECIPES.md shows, unchanged, in its own instance and
// with stand-ins for the programs that it names. It needs root and runs only through
// "make test-recipes".
package recipes
