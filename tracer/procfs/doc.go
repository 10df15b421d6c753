// Package procfs reads what /proc says about processes.
package procfs
