// Package systemd tests an installed lineage under a real systemd, in a virtual
// machine. LNGTEST_CHECKS names the checks to run, which are the functions of
// testdata/vm/systemd/guest; what they depend on is run too.
package systemd
