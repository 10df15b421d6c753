// Package access decides who is calling, what they may do to which session, and how
// much of it. It records what was refused.
package access
