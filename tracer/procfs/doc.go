// Package procfs reads what /proc says about processes, and what this host is.
package procfs
