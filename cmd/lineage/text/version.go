package text

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
)

type VersionDocument struct {
	api.Head
	Version string            `json:"version"`
	Commit  string            `json:"commit,omitempty"` // + at the end: with changes
	Go      string            `json:"go"`
	API     int               `json:"api"`
	ABI     string            `json:"abi,omitempty"`
	Objects map[string]string `json:"objects,omitempty"` // SHA-256 of each BPF object
	Daemon  *api.Version      `json:"daemon,omitempty"`  // absent: none answers
}

// Version shows the versions of this command and of the daemon at the socket; daemonErr
// is why the daemon's is not known.
func Version(doc *VersionDocument, socket string, daemonErr error) *Listing {
	return &Listing{
		Doc: doc, Items: []any{doc}, Names: []string{doc.Version},
		Text: func(p *Page) { writeVersion(p, doc, socket, daemonErr) },
	}
}

func writeVersion(p *Page, doc *VersionDocument, socket string, daemonErr error) {
	var t table
	t.row("lineage", doc.Version)
	if doc.Commit != "" {
		t.row("commit", doc.Commit)
	}
	t.row("go", doc.Go)
	t.row("api", fmt.Sprint(doc.API))
	if doc.ABI != "" {
		t.row("abi", doc.ABI)
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Objects)) {
		t.row("object", name+" sha256:"+doc.Objects[name])
	}
	// It is not an error here if no daemon runs, but if something else answers, that
	// gets a line.
	foreign, _ := errors.AsType[*api.Error](daemonErr)
	switch {
	case doc.Daemon != nil:
		v := doc.Daemon
		t.row("daemon", fmt.Sprintf("%s, api %d, abi %s, level %d, pid %d, %s", v.Version,
			v.API, v.ABI, v.Level, v.PID, socket))
	case foreign != nil:
		t.row("daemon", foreign.Message)
	default:
		t.row("daemon", "none at "+socket)
	}
	t.write(p)
}
