// Package attribution finds the work that members hand to other daemons, and the evidence
// that it is theirs.
package attribution
