// Package image runs the container image that "make image" makes as docs/CONTAINERS.md says,
// in its own dockerd: lineage init, the client, and the daemon with each of its
// privileges removed in turn. Run it with "make test-image".
package image
