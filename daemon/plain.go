//go:build linux

package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strconv"

	"github.com/lineage-ebpf/lineage/api"
)

// documented answers in documents where net/http would in text of its own:
// what it refuses before a handler sees it, such as too many headers.
type documented struct {
	net.Listener
	server *server
}

// Accept passes over the connections that there is no room for.
func (d documented) Accept() (net.Conn, error) {
	for {
		nc, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := d.server.accepted(nc); c != nil {
			return &documentedConn{nc, d.server.version, c}, nil
		}
	}
}

type documentedConn struct {
	net.Conn
	version string
	peer    *connection
}

// textHeaders is what net/http puts between status and text. Our own replies
// never have it.
const textHeaders = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// Write lets everything pass but net/http's own refusals, which are one write
// each.
func (c *documentedConn) Write(b []byte) (int, error) {
	line, text, refusal := bytes.Cut(b, []byte(textHeaders))
	status, ok := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if !refusal || !ok || bytes.IndexByte(line, '\n') >= 0 || len(status) < 3 {
		return c.Conn.Write(b)
	}
	e := api.NewError(api.CodeBadRequest, fmt.Sprintf("malformed request: %.200s", text), "")
	if string(status[:3]) == "431" {
		e = api.NewError(api.CodeTooLarge, "headers of more than 8 KiB", "")
	}
	body, err := json.Marshal(api.ErrorDocument{Head: head("error"), Error: e})
	if err != nil {
		return 0, err
	}
	reply := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n%s: %s\r\n%s: %d\r\nContent-Type: application/json\r\nContent-Length: %s\r\nConnection: close\r\n\r\n%s\n",
		e.Status(), e.Code, api.HeaderVersion, c.version, api.HeaderAPI, api.Major, strconv.Itoa(len(body)+1), body)
	if _, err := c.Conn.Write(reply); err != nil {
		return 0, err
	}
	return len(b), nil
}

// CloseWrite is what net/http does to a connection whose request it did not
// read to its end, so that the reply arrives before the reset.
func (c *documentedConn) CloseWrite() error {
	if u, ok := c.Conn.(*net.UnixConn); ok {
		return u.CloseWrite()
	}
	return nil
}
