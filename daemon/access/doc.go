// Package access identifies callers, decides what they may do to which session, and how
// much they see. It records refusals.
package access
