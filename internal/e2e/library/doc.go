// Package library runs the escape programs through the libraries of api/run: in
// Go, Python and Node.
package library
