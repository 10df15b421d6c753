package html

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"sync"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

var (
	//go:embed style.css
	style string
	//go:embed script.js
	script string
	//go:embed session.tmpl
	text string
	// Only the commands that write a page wait for the template.
	page = sync.OnceValue(func() *template.Template { return template.Must(template.New("session").Parse(text)) })
)

// The parts of the file that are the same in each. The policy allows this style and this script,
// known by their hashes, and nothing else: no other script, and no request.
var (
	head = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '` + hash(style) + `'; script-src '` + hash(script) + `'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<style>` + style + `</style>
`
	tail = `<script>` + script + `</script>
</body>
</html>
`
)

// hash names a script or a style in a policy.
func hash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// content is what the template shows.
type content struct {
	Title, ID, Name, Command string

	Receipt  *receipt
	Timeline timeline
	Steps    []stepRow
	Calls    []callRow
	Ports    []portRow
	Tree     *tree
	Parts    []fact // anchors and titles
	Shown    string
	Notes    []string
}

type stepRow struct{ After, Time, Text, Class string }

type callRow struct {
	After, Tool, ID, Lasted, Used string
	Agent, Processes              int
}

type portRow struct {
	Socket, Command, From, Until string
	PID                          int
}

func (p *Page) Write(w io.Writer, r *api.Report) error {
	p.settle(r)
	sorted := p.members.sorted()
	s := p.scale(sorted)
	t := newTree(p.session.ID, sorted, s, p.rootEnd)
	c := content{Tree: t, Timeline: p.draw(t, sorted)}
	c.Receipt = p.receipt(r, s, c.Timeline.LoadPeak)
	c.Command = p.began()
	c.ID, c.Name = p.session.ID, cmp.Or(display.Text(p.session.Name), p.session.ID)
	c.Title = "lineage: session " + cmp.Or(display.Text(p.session.Name), clip(c.Command, maxName),
		c.ID) + ": " + c.Receipt.Verdict
	p.rows(&c, s)
	p.notes(&c, r, len(sorted))
	out := bufio.NewWriterSize(w, 64<<10)
	_, err := out.WriteString(head)
	if err == nil {
		err = page().Execute(out, &c)
	}
	_, _ = out.WriteString(tail) // Flush has the error
	return cmp.Or(err, out.Flush())
}

func (p *Page) settle(r *api.Report) {
	if r == nil {
		return
	}
	for i := range r.Processes {
		if m := p.members.all[r.Processes[i].Ref]; m != nil {
			m.outcome = &r.Processes[i]
		}
	}
	if r.Ended != nil && p.clock.known {
		p.clock.now = max(p.clock.now, uint64(max(r.Ended.UnixNano()-p.clock.offset, 0)))
	}
}

func (p *Page) rows(c *content, s scale) {
	for _, x := range p.steps {
		c.Steps = append(c.Steps, stepRow{s.after(x.at), stamp(p.clock.wall(x.at)), x.text, x.kind})
	}
	for _, x := range p.calls {
		row := callRow{
			After:     s.after(x.began),
			Tool:      x.tool,
			ID:        display.Text(x.key.id),
			Agent:     x.key.agent.PID,
			Processes: x.processes,
			Used:      x.used,
			Lasted:    "end not reported",
		}
		if x.ended != 0 {
			row.Lasted = lasted(x.began, x.ended)
		}
		c.Calls = append(c.Calls, row)
	}
	limit := share(receiptBytes, len(p.ports), func(i int) string { return p.ports[i].runs })
	for _, x := range p.ports {
		row := portRow{Socket: x.name, PID: x.ref.PID, Command: clip(x.runs, limit),
			From: s.after(x.from), Until: "end not seen"}
		if x.until != 0 {
			row.Until = s.after(x.until)
		}
		c.Ports = append(c.Ports, row)
	}
}

func (p *Page) notes(c *content, r *api.Report, shown int) {
	c.Parts = []fact{{"receipt", "Receipt"}, {"timeline", "Timeline"}}
	if len(c.Calls) > 0 {
		c.Parts = append(c.Parts, fact{"calls", "Tool calls"})
	}
	if len(c.Ports) > 0 {
		c.Parts = append(c.Parts, fact{"ports", "Ports"})
	}
	c.Parts = append(c.Parts, fact{"tree", "Processes"})
	c.Shown = "All " + display.Count(shown, "process") + ", below the process that created each."
	all := shown + p.members.dropped
	if r != nil {
		all = max(all, started(r, p.session))
	}
	if all > shown {
		c.Shown = fmt.Sprintf("%d of %d processes, below the process that created each. Not shown: %d.",
			shown, all, all-shown)
	}
	if c.Tree.limit < maxCommand {
		c.Shown += fmt.Sprintf(" Commands are cut after %d bytes.", c.Tree.limit)
	}
	note := func(n int, what string) {
		if n > 0 {
			c.Notes = append(c.Notes, fmt.Sprintf("%d more %s are not shown.", n, what))
		}
	}
	note(p.more.calls, "tool calls")
	note(p.more.ports, "sockets")
	note(p.more.steps, "changes of state")
	if p.gaps {
		c.Notes = append(c.Notes, "The history does not have all events of this session; the timeline marks the gaps.")
	}
	hidden := "Secrets in arguments are hidden as in the history."
	if p.members.redact == nil {
		hidden = "Arguments are left out, because the patterns of secrets could not be read."
	}
	c.Notes = append(c.Notes, hidden,
		"Times are since the session began. This file loads nothing, and runs no script but its own.")
}
