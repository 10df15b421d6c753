// Package html writes what happened in a session, from the history, as one HTML file, which opens without network and
// without this program.
//
// Everything is text and SVG in the file itself. A small script of ours adds a search; a policy in the file (CSP) forbids
// every other script, and all loading. What members choose is made visible by package display, escaped by html/template,
// and is never part of a script, a style, or the name of anything.
//
// A file whose name a command line gave is written safely, also as root in directories of others. A name is looked up
// only once: the directory's owner may change what it means. Every file is opened with the rights of the one user who is
// to write it, and a link at the end of a name is not followed: so only a file that this user could write is ever
// written. A regular file is replaced as a whole, or left as it was.
package html
