// Package stage is what the tests of the whole program share: the test's own instance
// of lineage, the marker that shows what is alive, and bystanders that must not be
// touched.
package stage
