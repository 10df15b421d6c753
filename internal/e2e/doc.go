// Package e2e drives bin/lineage from outside, against the programs in
// testdata/programs, on the running kernel: what a session must hold, one test
// each. It needs root and runs only through "make test-e2e", in a mount namespace
// with a bpffs of its own.
//
// The tests never rely on lineage alone to know what is alive: every program holds the
// write end of a FIFO, and its read end shows when the last one is gone.
package e2e
