// Package policy reads what an operator lets lineage do by itself on a host.
//
// A policy is read strictly: one unknown key, one value of a wrong type or out
// of range refuses the whole file with an [Error] that names line and column;
// there is no half of a policy. [Default] is what holds without a file. Every
// effective value knows where it came from ([Policy.Values]).
//
// The package is pure: it asks neither the kernel nor the clock, and a matcher
// gets what is known of a process as [Facts].
package policy
