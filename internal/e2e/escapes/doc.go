// Package escapes tries, row by row, every known way to get out of a session,
// on the running kernel: with the root alive, with the root SIGKILLed and with
// the daemon SIGKILLed, at each guarantee level, on an idle machine and on one
// whose CPUs are all busy. It needs root and runs only through "make
// test-escapes" and "make escapes", which also writes docs/results/escapes.md from what it
// saw.
//
// The programs' marker shows what is alive, never lineage; processes that must not be
// touched count the signals that they get. The doors other than lineage run, and coreutils' own
// tests of timeout(1), are tried with rows of the same table.
package escapes
