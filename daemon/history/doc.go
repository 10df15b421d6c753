// Package history records what outlives the daemon, and gives it back to the next one.
package history
