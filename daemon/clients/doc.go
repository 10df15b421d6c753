// Package clients finds the client of a container engine that asked for a command in a container, and ends the command with it.
package clients
