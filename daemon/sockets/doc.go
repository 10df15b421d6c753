// Package sockets keeps the TCP sockets that the members of sessions listen on. The kernel tells
// when a member begins to listen, and when the last process that had the socket closed it. Sockets
// that members inherited or were passed are found by looks at procfs only.
package sockets
