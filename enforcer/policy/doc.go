// Package policy reads what an operator allows lineage to do automatically on a host.
//
// A policy is read strictly: with one unknown key, or one value of a wrong type or out
// of range, the whole file is refused with an [Error] that names line and column.
// [Default] is used without a file. Every effective value knows where it came from
// ([Policy.Values]).
//
// The package is pure: it uses neither the kernel nor the clock, and a matcher gets
// what is known of a process as [Facts].
package policy
