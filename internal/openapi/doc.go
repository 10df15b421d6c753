// Package openapi writes docs/openapi.json: the routes of the socket, and every field
// of every document, from the types of package api and their comments. Its test is the writer:
// no program needs it.
package openapi
