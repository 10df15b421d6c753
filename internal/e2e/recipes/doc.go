// Package recipes runs what docs/RECIPES.md shows, as it stands there, in an
// instance of its own and with stand-ins for the programs that it names. It needs
// root and runs only through "make test-recipes".
package recipes
