// Package packages tests what make dist makes.
package packages
