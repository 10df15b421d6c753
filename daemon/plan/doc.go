// Package plan shows what an end would do, and refuses an end that no longer matches
// its plan.
package plan
