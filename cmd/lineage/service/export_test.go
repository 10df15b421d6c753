package service

import (
	"strings"
	"testing"
)

func TestMetricsAddress(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:9750": true, "[::1]:9750": true, ":9750": true, "localhost:1": true,
		"localhost": false, "9750": false, "127.0.0.1:0": false, "127.0.0.1:99999": false, "a b:9750": false, "::1:9750": false, "a\x1b:1": false,
	} {
		o := ExportOptions{Metrics: address}
		if err := o.Check(); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestGroup: the servers of NATS are those of a group.
func TestGroup(t *testing.T) {
	for text, ok := range map[string]bool{"@receipts": true, "tls://nats.example.org:4222": false, "receipts": false} {
		if err := (&ExportOptions{NATS: text}).Check(); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "must be @GROUP") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
