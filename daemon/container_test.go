//go:build linux

package daemon

import (
	"strings"
	"testing"
)

func TestContainer(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	inner := strings.Repeat("fedcba9876543210", 4)
	for path, want := range map[string]string{
		"":                                      "",
		"/user.slice/user-1000.slice":           "",
		"/docker/" + id:                         "0123456789ab",
		"/system.slice/docker-" + id + ".scope": "0123456789ab",
		"/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope/init": "0123456789ab",
		"/machine.slice/libpod-" + id + ".scope/container":                         "0123456789ab",
		"/docker/" + id + "/docker/" + inner:                                       "fedcba987654",
		"/docker/" + id[:63]:                                                       "",
		"/docker/" + id + "0":                                                      "",
	} {
		if got := container(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
