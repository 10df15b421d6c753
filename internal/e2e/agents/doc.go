// Package agents runs real coding agents, driven by a scripted model, through situations in
// which they are known to leave processes behind: with and without lineage.
package agents
