package apitest

import (
	"context"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// PlanToken is the token of a plan that the daemon makes.
const PlanToken = "5f3a9c01"

// Plan has the live processes of the session's tree.
func (c *Client) Plan(ctx context.Context, s string) (*api.Plan, error) {
	if c.Has.Plan != nil {
		return c.planned(c.Has.Plan)
	}
	found, err := c.Session(ctx, s)
	if err != nil {
		return nil, err
	}
	p := &api.Plan{Session: found.ID, Name: found.Name, State: found.State, Processes: []api.PlanProcess{}}
	if found.State == api.StateEnded {
		return p, nil
	}
	p.Token = PlanToken
	for i, n := range c.tree(found.ID, "").Nodes {
		if n.State != api.StateLive {
			continue
		}
		x := api.PlanProcess{Process: n.Process, Why: "forked by 4121 sh", Killable: n.Task != "D"}
		if i == 0 {
			x.Why = "root"
		}
		if !x.Killable {
			x.Reason = "state D (nfs_wait)"
		}
		p.Processes = append(p.Processes, x)
	}
	return c.planned(p)
}

// PlanBranch has the named process.
func (c *Client) PlanBranch(ctx context.Context, ref, call string) (*api.Plan, error) {
	if c.Has.Plan != nil {
		return c.planned(c.Has.Plan)
	}
	p, err := c.Process(ctx, ref)
	if err != nil {
		return nil, err
	}
	return c.planned(&api.Plan{Session: p.Session, Branch: &p.Ref, Call: call, State: api.StateActive, Token: PlanToken,
		Processes: []api.PlanProcess{{Process: *p, Why: "forked by 4120 claude", Killable: true}}})
}

func (c *Client) planned(p *api.Plan) (*api.Plan, error) {
	copied := *p
	if c.On.Plan != nil {
		if err := c.On.Plan(&copied); err != nil {
			return nil, err
		}
	}
	return reply(c, &copied)
}

// Pause and Resume answer with the session.
func (c *Client) Pause(_ context.Context, s string) (*api.Session, error) { return c.pause(s, "pause") }

// Resume is like Pause.
func (c *Client) Resume(_ context.Context, s string) (*api.Session, error) {
	return c.pause(s, "resume")
}

func (c *Client) pause(s, verb string) (*api.Session, error) {
	found, err := c.Find(s)
	if err != nil {
		return nil, err
	}
	got(c, &c.Got.Paused, verb+" "+found.ID)
	d := *found
	if d.Paused = nil; verb == "pause" {
		d.Paused = d.Started
	}
	return reply(c, &d)
}

func (c *Client) End(ctx context.Context, s string, req api.EndRequest) (*api.Report, error) {
	found, err := c.Find(s)
	if err != nil {
		return nil, err
	}
	got(c, &c.Got.Ended, ending(found.ID, req))
	switch {
	case c.On.End != nil:
		return c.On.End(found.ID, req)
	case c.Has.Begun != nil:
		return c.Has.Begun, nil
	}
	r := c.report(found.ID)
	if found.State == api.StateEnded {
		r.Ended = found.Ended
	}
	return r, nil
}

// EndBranch ends the branch as session "branch".
func (c *Client) EndBranch(_ context.Context, ref string, req api.EndRequest) (*api.Report, error) {
	got(c, &c.Got.Branches, ending(ref, req))
	if c.On.End != nil {
		return c.On.End("branch", req)
	}
	return reply(c, c.report("branch"))
}

// ending is a request as Got has it.
func ending(what string, req api.EndRequest) string {
	if req.GraceMS != nil {
		what += fmt.Sprintf(" grace=%d", *req.GraceMS)
	}
	if req.Now {
		what += " now"
	}
	if req.Call != "" {
		what += " call=" + req.Call
	}
	if req.PlanToken != "" {
		what += " plan=" + req.PlanToken
	}
	return what
}

func (c *Client) Command(_ context.Context, s api.SignedCommand) (*api.CommandReply, error) {
	return c.On.Command(s)
}

func (c *Client) CommandReceipt(_ context.Context, id string, _ time.Duration) (*api.CommandReply, error) {
	return c.On.Commanded(id)
}

func (c *Client) Report(ctx context.Context, s string, wait time.Duration) (*api.Report, error) {
	if c.On.Report != nil {
		return c.On.Report(ctx, s, wait)
	}
	return reply(c, c.report(s))
}

// report is a copy of a session's report.
func (c *Client) report(id string) *api.Report {
	if r := c.Has.Reports[id]; r != nil {
		copied := *r
		return &copied
	}
	if c.Has.Report == nil {
		return &api.Report{Session: id, State: api.StateEnded, Verdict: api.VerdictClean, ConfirmedEmpty: true}
	}
	copied := *c.Has.Report
	copied.Session = id
	return &copied
}

func (c *Client) Kill(_ context.Context, ref string, req api.KillRequest) (*api.Killed, error) {
	if c.Refuse != nil {
		return nil, c.Refuse
	}
	got(c, &c.Got.Killed, ref+" "+req.Signal)
	if c.On.Kill != nil {
		return c.On.Kill(ref, req)
	}
	if c.Has.Killed != nil {
		return c.Has.Killed, nil
	}
	r, err := api.ParseRef(ref)
	if err != nil || r.StartNS == 0 {
		return nil, api.NewError(api.CodeBadRequest, "want PID@START_NS", "")
	}
	return &api.Killed{Process: api.Process{Ref: r, Comm: "make"}, Outcome: "sent"}, nil
}

func (c *Client) Why(_ context.Context, ref string) (*api.Why, error) {
	got(c, &c.Got.Whys, ref)
	if c.On.Why != nil {
		return c.On.Why(ref)
	}
	r, err := api.ParseRef(ref)
	if err != nil {
		return nil, err
	}
	w := c.Has.Whys[r.PID]
	switch {
	case w == nil:
		return nil, notFound("pid %d", r.PID)
	case r.StartNS != 0 && r.StartNS != w.Process.StartNS:
		return nil, api.Errorf(api.CodeIdentity, "pid %d is not the process you named (%s is gone)", r.PID, r)
	}
	return reply(c, w)
}

func (c *Client) WhyPort(_ context.Context, proto string, port int) (*api.Holders, error) {
	if c.On.WhyPort != nil {
		return c.On.WhyPort(proto, port)
	}
	return reply(c, c.Has.Holders)
}

func (c *Client) WhyPath(_ context.Context, f api.PathRef) (*api.Holders, error) {
	got(c, &c.Got.Paths, f)
	if c.On.WhyPath != nil {
		return c.On.WhyPath(f)
	}
	return reply(c, c.Has.Holders)
}
