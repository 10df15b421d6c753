package service

import (
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		o    LinkOptions
		want string
	}{
		{LinkOptions{Servers: []string{"tls://a.example.org:4222", "tls://b.example.org"}, Nkey: "k", CA: "c", Name: "web1"}, ""},
		{LinkOptions{Servers: []string{"nats://127.0.0.1:4222"}}, ""},
		{LinkOptions{Servers: []string{"nats://[::1]:4222"}}, ""},
		{LinkOptions{}, "--server is missing; give the URL of a NATS server"},
		{LinkOptions{Servers: []string{"nats://a.example.org"}}, `invalid --server "nats://a.example.org": nats:// is without TLS, and only for 127.0.0.1, ::1 and localhost; use tls://`},
		{LinkOptions{Servers: []string{"nats://127.0.0.1.example.org"}}, `invalid --server "nats://127.0.0.1.example.org": nats:// is without TLS, and only for 127.0.0.1, ::1 and localhost; use tls://`},
		{LinkOptions{Servers: []string{"tls://me:secret@a"}}, `invalid --server "tls://me:secret@a": must not contain a password; use --nkey or --creds`},
		{LinkOptions{Servers: []string{"ws://a"}}, `invalid --server "ws://a": must begin with tls:// or nats://`},
		{LinkOptions{Servers: []string{"tls://"}}, `invalid --server "tls://": must be tls://HOST:PORT`},
		{LinkOptions{Servers: []string{"tls://a", "nats://localhost"}}, "--server: give either tls:// or nats:// URLs"},
		{LinkOptions{Servers: []string{"tls://a"}, Nkey: "k", Creds: "c"}, "give one of --nkey and --creds"},
		{LinkOptions{Servers: []string{"nats://localhost"}, CA: "c"}, "--ca needs tls:// URLs"},
		{LinkOptions{Servers: []string{"tls://a"}, Name: "web1.*"}, `invalid --name "web1.*": use at most 64 letters, digits, - and _`},
	} {
		got := ""
		if err := c.o.Check(); err != nil {
			got = err.Error()
		}
		require.Equal(t, got, c.want)
	}
	require.Equal(t, NameOf("web1.example.org"), "web1_example_org")
}
