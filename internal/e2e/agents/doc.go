// Package agents runs real coding agents, driven by a scripted model, through situations in
// which they are known to leave processes behind: without lineage, and with it.
package agents
