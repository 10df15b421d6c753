// Package timeout runs the escape programs under lineage timeout and lineage run --leaks, beside timeout(1),
// and coreutils' own tests of it.
package timeout
