// Package leaks reports how sessions and the host grow, and when something is used up.
package leaks
