// Package timeout runs the escape programs under lineage timeout and lineage run --leaks, and coreutils' own tests
// of timeout(1).
package timeout
