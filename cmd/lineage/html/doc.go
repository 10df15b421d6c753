// Package html writes what happened in a session, from the history, as one HTML file, which opens
// without network and without this program.
//
// Everything is text and SVG in the file itself. A small script of ours adds a search; a policy in
// the file (CSP) forbids every other script, and all loading. What members choose is made visible
// by package display, escaped by html/template, and is never part of a script, a style, or the
// name of anything.
package html
