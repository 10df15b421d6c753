// Package stage is what the tests of the whole program share: an instance of
// lineage of the test's own, the marker that tells who is alive, and bystanders
// that must not be touched.
package stage
