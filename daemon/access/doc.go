// Package access decides which caller may do what to which session.
package access
