//go:build linux

package holdings

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// A port is in use while a connection to it is open, and for a minute after a close at either end
// on this host; a unix socket while it has a peer. Other ports of the process are not.
func TestInUse(t *testing.T) {
	me, err := identify(uint32(os.Getpid()))
	require.NoError(t, err)
	for _, tt := range []struct {
		network, address string
		after            bool // it is seen after the close
	}{
		{"tcp4", "127.0.0.1:0", true}, {"tcp4", "0.0.0.0:0", true}, {"tcp", "[::]:0", true},
		{"unix", filepath.Join(t.TempDir(), "a b"), false},
	} {
		for _, first := range []string{"client", "server"} {
			t.Run(tt.network+" "+first, func(t *testing.T) {
				of := func(l net.Listener) []Port {
					held := reader().Of(t.Context(), []tracer.Identity{me})
					return slices.DeleteFunc(held.Ports, func(p Port) bool {
						if a, ok := l.Addr().(*net.TCPAddr); ok {
							return int(p.Local.Port()) != a.Port
						}
						return p.Path != l.Addr().String()
					})
				}
				l, mine := net.Listener(nil), []Port(nil)
				for n := 0; n == 0 || n < 5 && reader().InUse(t.Context(), mine); n++ { // a port may have had a client a minute ago
					l, err = net.Listen(tt.network, tt.address)
					require.NoError(t, err)
					defer l.Close()
					mine = of(l)
				}
				if len(mine) != 1 || reader().InUse(t.Context(), mine) {
					t.Fatalf("%+v: in use before a client came", mine)
				}
				c, err := net.Dial(l.Addr().Network(), l.Addr().String())
				require.NoError(t, err)
				s, err := l.Accept()
				require.NoError(t, err)
				if !reader().InUse(t.Context(), mine) {
					t.Error("not in use while a client is connected")
				}
				other, err := net.Listen("tcp4", "127.0.0.1:0")
				require.NoError(t, err)
				defer other.Close()
				if reader().InUse(t.Context(), of(other)) {
					t.Error("another port is in use")
				}
				if first == "server" {
					c, s = s, c
				}
				require.NoError(t, c.Close(), s.Close())
				require.Equal(t, reader().InUse(t.Context(), mine), tt.after)
			})
		}
	}
}

// A connection of this host to the same port of another host is not a client, and what cannot be
// read counts as use.
func TestClientLines(t *testing.T) {
	port := []Port{{Proto: "tcp", Local: netip.MustParseAddrPort("127.0.0.1:8080"), Netns: 4}}
	every := []Port{{Proto: "tcp6", Local: netip.MustParseAddrPort("[::]:8080"), Netns: 4}}
	const rest = " 00000000:00000000 00:00000000 00000000  0 0 77 1 0"
	for line, want := range map[string][2]bool{
		"1: 0100007F:1F90 0100007F:C350 01" + rest: {true, true},   // the server's end
		"1: 0100007F:C350 0100007F:1F90 06" + rest: {true, true},   // the client's
		"1: 0200000A:C350 0100000A:1F90 01" + rest: {false, false}, // of another host
		"1: 0200000A:1F90 0100000A:C350 01" + rest: {false, true},  // a client of another host
		"1: 0100007F:1F90 00000000:0000 0A" + rest: {false, false}, // it listens
		"1: 0100007F:1F91 0100007F:C350 01" + rest: {false, false},
	} {
		if got := [2]bool{client(line, "tcp", 4, port), client(line, "tcp", 4, every)}; got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
	if client("1: 0100007F:1F90 0100007F:C350 01"+rest, "tcp", 5, port) {
		t.Error("in another network namespace")
	}
	me, err := identify(uint32(os.Getpid()))
	require.NoError(t, err)
	if !reader().InUse(t.Context(), []Port{{Proto: "tcp", Netns: 1, Holder: me}}) {
		t.Error("a table that cannot be read is taken as unused")
	}
	if reader().InUse(t.Context(), []Port{{Proto: "udp", Netns: 1, Holder: me}}) {
		t.Error("of UDP nothing is known")
	}
}
