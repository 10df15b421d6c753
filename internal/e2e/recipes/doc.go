// Package recipes runs what docs/RECIPES.md and docs/AGENTS.md show, unchanged, in its own
// instance and with stand-ins for the programs that they name. It needs root and runs only
// through "make test-recipes".
package recipes
