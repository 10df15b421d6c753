// Package packages tests the output of make dist.
package packages
