package perfetto

import (
	"fmt"
	"path"
	"unicode/utf8"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Limits for text that traced processes choose: bytes of a name, and of a note.
const (
	maxName = 128
	maxNote = 2048
)

// clean is text as visible UTF-8 of at most limit bytes.
func clean(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit] // first: it may be megabytes
	}
	text = display.Text(text)
	if len(text) <= limit {
		return text
	}
	cut := limit - len("…")
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// image is the name of the program that a process runs. "lineage run" starts its command as a
// process that runs lineage by /proc/self/exe: the kernel calls it "exe".
func (t *Trace) image(p *api.Process) string {
	switch root := t.session.Root; {
	case path.Dir(p.Exe) == "/proc/self" && len(p.Argv) > 0 && t.redact != nil:
		return path.Base(t.redact(p.Argv)[0])
	case p.Exe != "":
		return path.Base(p.Exe)
	case p.Comm == "exe" && t.session.Owner != nil && root != nil && root.Ref == p.Ref:
		return "lineage"
	}
	if p.Comm != "" {
		return p.Comm
	}
	return "?"
}

func (t *Trace) label(p *api.Process) string { return fmt.Sprintf("%d %s", p.PID, t.image(p)) }
