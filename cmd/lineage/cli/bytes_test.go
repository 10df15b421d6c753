package cli

import "testing"

func TestBytesValue(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "4096": 4096, "1KiB": 1 << 10, "512MiB": 512 << 20, "8GiB": 8 << 30, "8TiB": 8 << 40,
	} {
		var v Bytes
		if err := v.Set(text); err != nil || int64(v) != want {
			t.Errorf("%s is %d, %v", text, v, err)
		}
		var again Bytes
		if err := again.Set(v.String()); err != nil || again != v {
			t.Errorf("%s prints as %s, which is %d, %v", text, v.String(), again, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "1.5GiB", "GiB", "8gb", "8 GiB", "9223372036854775807KiB", "0x10"} {
		var v Bytes
		if err := v.Set(text); err == nil {
			t.Errorf("%q was taken as %d", text, v)
		}
	}
}
