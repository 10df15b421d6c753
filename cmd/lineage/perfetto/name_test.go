package perfetto

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

// TestImage: what the kernel calls "exe" is named after the program that it is.
func TestImage(t *testing.T) {
	link := func(argv ...string) api.Process {
		return api.Process{Ref: ref(101), Comm: "exe", Exe: "/proc/self/exe", Argv: argv}
	}
	for _, c := range []struct {
		p    api.Process
		want string
	}{
		{api.Process{Ref: ref(100), Comm: "exe"}, "lineage"}, // before it executes the command of "lineage run"
		{api.Process{Ref: ref(100), Comm: "sh", Exe: "/bin/dash"}, "dash"},
		{api.Process{Ref: ref(101), Comm: "exe"}, "exe"}, // a member's
		{link("/usr/lib/chromium/chromium", "--type=zygote"), "chromium"},
		{link("hunter2"), "[redacted]"},
		{link(), "exe"},
		{api.Process{Ref: ref(102)}, "?"},
	} {
		s := newStory()
		s.trace.session.Owner = new(ref(50))
		if got := s.trace.image(&c.p); got != c.want {
			t.Errorf("%+v: %q, want %q", c.p, got, c.want)
		}
		s.trace.session.Owner, s.trace.redact = nil, nil
		if got := s.trace.image(&c.p); c.p.Comm == "exe" && got != "exe" {
			t.Errorf("%+v without owner and arguments: %q", c.p, got)
		}
	}
}
