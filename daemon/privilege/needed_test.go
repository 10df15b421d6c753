//go:build linux

package privilege

import "testing"

func TestGated(t *testing.T) {
	for release, want := range map[string]bool{
		"5.10.0-46-cloud-amd64": true, "5.18.19": true, "5.19.0": false, "6.1.0-56-amd64": false, "7.2.12": false, "4.19": true, "": true, "x": true,
	} {
		if bpfGated(release) != want {
			t.Errorf("%q: %v", release, !want)
		}
	}
}
