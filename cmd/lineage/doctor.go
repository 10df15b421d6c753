package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host's kernel can do, what is missing and what to do",
		Long: `Try every program and feature of the kernel by itself, without changing
anything. Exits with 0 if sessions can be tracked here, else with 7. If a daemon
answers, tell what came of its last self-check and what does not work in it.`,
		Args:              argsCount(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d := a.host.doctor()
		if st := a.status(cmd.Context()); st != nil {
			d.SelfCheck, d.Capabilities, d.Degraded = st.SelfCheck, st.Capabilities, st.Degraded
		}
		if err := a.print(format.value, doctorListing(d)); err != nil {
			return err
		}
		if !d.Supported {
			return &exitError{code: api.ExitUnsupported}
		}
		return nil
	}
	return cmd
}

// doctorPatience is how long a daemon has to answer.
const doctorPatience = 2 * time.Second

// status is what the daemon says of itself; nil if there is no answer, as the kernel
// is what doctor is about.
func (a *app) status(ctx context.Context) *api.Status {
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	c, err := a.client(ctx)
	if err != nil {
		return nil
	}
	defer c.Close()
	st, err := c.Status(ctx)
	if err != nil {
		return nil
	}
	return st
}

// levels is what each guarantee level means, for people.
var levels = [...]string{
	1: "processes are attributed and counted, with the daemon dead too",
	2: "sessions are ended without a race, from user space",
	3: "the kernel ends a session in one call",
	4: "the kernel ends a session by itself when its root exits, with the daemon dead too",
}

func doctorListing(d api.Doctor) listing {
	d.Head = head("doctor")
	l := listing{doc: d, text: func(p *page) { writeDoctor(p, &d) }}
	for _, row := range d.Items {
		l.names = append(l.names, row.Feature)
		l.items = append(l.items, struct {
			api.Head
			api.DoctorItem
		}{api.Head{Kind: "feature"}, row})
	}
	return l
}

func writeDoctor(p *page, d *api.Doctor) {
	verdict, color := "sessions can be tracked and ended here", green
	if !d.Supported {
		verdict, color = "sessions cannot be tracked", red
		for _, row := range d.Items {
			if row.Required && !row.OK {
				verdict += ": " + cmp.Or(row.Why, row.Feature)
				break
			}
		}
	}
	p.line("%s", p.paint(color, display.Text(fmt.Sprintf("kernel %s: %s", d.Kernel, verdict))))
	if d.Level > 0 && d.Level < len(levels) {
		p.line("level %d of %d: %s", d.Level, len(levels)-1, levels[d.Level])
	}
	for _, what := range d.Missing {
		p.line("%s", display.Text(what))
	}
	if c := d.SelfCheck; c != nil {
		verdict, color := "passed", green
		if !c.OK {
			verdict, color = "FAILED: "+cmp.Or(c.Why, "unknown"), red
		}
		if c.At != nil {
			verdict = c.At.In(p.now.Location()).Format("2006-01-02 15:04:05") + " " + verdict
		}
		p.line("%s", p.paint(color, display.Text("the daemon's self-check at "+verdict)))
	}
	for _, what := range d.Degraded {
		p.line("%s", p.paint(red, display.Text("the daemon is degraded: "+what)))
	}
	if len(d.Capabilities) > 0 {
		p.line("%s", display.Text("the daemon's capabilities: "+strings.Join(d.Capabilities, " ")))
	}
	p.wide = true // what to do about it is no use in part
	var t table
	for _, row := range d.Items {
		mark, color, text := "ok", green, row.Why
		if !row.OK {
			mark, color = "no", yellow
			if row.Required {
				color = red
			}
			if row.Do != "" {
				text += "; " + row.Do
			}
		}
		t.paintedRow([]string{"", color}, "", mark, display.Text(row.Feature), display.Text(text))
	}
	t.write(p)
}
