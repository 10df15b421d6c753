// Package attribution finds the work that members hand to other daemons, and the evidence
// for it.
package attribution
