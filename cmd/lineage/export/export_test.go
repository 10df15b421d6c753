package export

import "testing"

func TestMetricsAddress(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:9750": true, "[::1]:9750": true, ":9750": true, "localhost:1": true,
		"localhost": false, "9750": false, "127.0.0.1:0": false, "127.0.0.1:99999": false, "a b:9750": false, "::1:9750": false, "a\x1b:1": false,
	} {
		o := Options{Metrics: address}
		if err := o.Check(); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}
