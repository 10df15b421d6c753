// Package httpapi answers the API: routes, which callers may reach their handlers, and a handler for
// each. A handler is a method of the few things that it needs.
package httpapi
