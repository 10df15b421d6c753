// Package sockets keeps the TCP sockets that the members of sessions listen on. The kernel reports
// when a member begins to listen, and when the last process that had the socket closed it. Sockets
// that members inherited or were passed are found only by looks at procfs.
package sockets
