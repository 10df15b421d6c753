// Package inbox reads the kernel's events, and keeps those that the registry has not
// applied yet within a bound.
package inbox
