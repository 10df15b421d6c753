// Package history records what outlives the daemon, and returns it to the next one.
package history
