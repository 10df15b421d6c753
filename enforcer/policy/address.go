package policy

import (
	"fmt"
	"net"
	"strconv"
)

// Address is where something is served: host:port, or empty.
type Address string

func (a *Address) set(text string) *wrong {
	if text == "" {
		*a = ""
		return nil
	}
	const hint = "use host:port, for instance 127.0.0.1:9750 or [::1]:9750"
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return &wrong{fmt.Sprintf("invalid address %q", text), hint}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return &wrong{fmt.Sprintf("invalid port %q", port), "must be 1 to 65535"}
	}
	for _, c := range host {
		if c <= ' ' || c > '~' {
			return &wrong{fmt.Sprintf("invalid host %q", host), hint}
		}
	}
	*a = Address(text)
	return nil
}

func (a Address) String() string { return string(a) }

func (Address) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": `^$|:[0-9]{1,5}$`, "maxLength": 300}
}
