// Package apitest has a daemon in memory, for the tests of what uses an api.Client.
package apitest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// Client is an api.Client that answers from what a test gave it, and keeps what it was
// requested to do. The zero value is a daemon without sessions.
type Client struct {
	sync.Mutex // guards Has and Got, if requests come while the test uses them

	Refuse error // what every method but Version returns
	Has    Has
	On     On
	Got    Got
}

var _ api.Client = (*Client)(nil)

// Has is what the daemon knows. A document that is nil is empty.
type Has struct {
	Version  *api.Version
	Status   *api.Status
	Sessions []api.Session
	Trees    map[string]*api.Tree // by the session's id
	Whys     map[int]*api.Why     // by PID
	Holders  *api.Holders         // of every port and path
	Plan     *api.Plan            // nil: of the session's tree
	Begun    *api.Report          // what End returns; nil: the report
	Reports  map[string]*api.Report
	Report   *api.Report // of the other sessions; nil: clean
	Killed   *api.Killed // nil: the process that was named
	Warnings []string    // of a session that is created or kept
	Kept     *api.Session
	Orphans  *api.Orphans
	Leaks    *api.Leaks
	Policy   *api.Policy
	Halted   *api.Halted
	Events   []api.Event
}

// On has what a test does at a request. A function that returns a document answers in
// place of the daemon; of Create, unless the document is nil.
type On struct {
	Session   func(id string) (*api.Session, error)
	Create    func(ctx context.Context, req api.NewSession) (*api.Session, error)
	Tree      func(t *api.Tree, dead string) // may change the answer
	Plan      func(*api.Plan) error          // the same
	End       func(id string, req api.EndRequest) (*api.Report, error)
	Report    func(ctx context.Context, id string, wait time.Duration) (*api.Report, error)
	Command   func(c api.SignedCommand) (*api.CommandReply, error)
	Commanded func(id string) (*api.CommandReply, error)
	History   func(q api.HistoryQuery) (*api.Sessions, error)
	Kill      func(ref string, req api.KillRequest) (*api.Killed, error)
	Why       func(ref string) (*api.Why, error)
	WhyPort   func(proto string, port int) (*api.Holders, error)
	WhyPath   func(api.PathRef) (*api.Holders, error)
	Events    func(ctx context.Context, q api.EventsQuery, each func(*api.Event) error) error
	Watch     func(ctx context.Context, each func(*api.Frame) error) error
	Mark      func(api.MarkRequest) error // may refuse
	Process   func(ref string) (*api.Process, error)
	Policy    func() (*api.Policy, error)
	Explain   func(ref string) (*api.PolicyExplain, error)
}

// Got is what was requested, in order. A request to end or to signal is a line of its
// arguments: "k3x9q2 grace=500 now plan=5f3a", "4127@9 TERM".
type Got struct {
	Created  []api.NewSession
	Kept     []api.KeepRequest
	Marks    []api.MarkRequest
	Halts    []api.HaltRequest
	Ended    []string
	Branches []string
	Paused   []string // "pause ID" and "resume ID"
	Killed   []string
	Whys     []string
	Paths    []api.PathRef
	Events   []api.EventsQuery
	History  []api.HistoryQuery
	Sessions int // requests for one session
	Closed   bool
}

// reply is a document, or what the daemon says instead.
func reply[T any](c *Client, doc *T) (*T, error) {
	if c.Refuse != nil {
		return nil, c.Refuse
	}
	if doc == nil {
		doc = new(T)
	}
	return doc, nil
}

// got keeps a request.
func got[T any](c *Client, all *[]T, one T) {
	c.Lock()
	defer c.Unlock()
	*all = append(*all, one)
}

func notFound(format string, args ...any) error {
	return api.NewError(api.CodeNotFound, fmt.Sprintf(format, args...)+": not found", "")
}

func (c *Client) Close() error {
	c.Lock()
	defer c.Unlock()
	c.Got.Closed = true
	return nil
}

func (c *Client) Version(context.Context) (*api.Version, error) {
	if c.Has.Version == nil {
		return &api.Version{}, nil
	}
	return c.Has.Version, nil
}

func (c *Client) Status(context.Context) (*api.Status, error) { return reply(c, c.Has.Status) }

func (c *Client) Stop(context.Context, bool, bool) error { return c.Refuse }

func (c *Client) Sessions(_ context.Context, state, _ string) (*api.Sessions, error) {
	c.Lock()
	defer c.Unlock()
	list := &api.Sessions{}
	for _, s := range c.Has.Sessions {
		if state == "idle" && (s.IdleSeconds == 0 || s.State != api.StateActive) {
			continue
		}
		if ended := s.State == api.StateEnded; state == "all" || (state == "ended") == ended {
			list.Items = append(list.Items, s)
		}
	}
	return reply(c, list)
}

func (c *Client) Session(_ context.Context, s string) (*api.Session, error) {
	if c.On.Session != nil {
		return c.On.Session(s)
	}
	c.Lock()
	c.Got.Sessions++
	c.Unlock()
	return c.Find(s)
}

// Find is the session of that id or name.
func (c *Client) Find(s string) (*api.Session, error) {
	if c.Refuse != nil {
		return nil, c.Refuse
	}
	c.Lock()
	defer c.Unlock()
	i := slices.IndexFunc(c.Has.Sessions, func(x api.Session) bool { return x.ID == s || x.Name == s })
	if i < 0 {
		return nil, notFound("session %s", s)
	}
	return &c.Has.Sessions[i], nil
}

func (c *Client) Create(ctx context.Context, req api.NewSession) (*api.Session, error) {
	if c.On.Create != nil {
		if s, err := c.On.Create(ctx, req); s != nil || err != nil {
			return s, err
		}
	}
	got(c, &c.Got.Created, req)
	return reply(c, &api.Session{ID: "found0", Name: req.Name, Live: 3, State: api.StateActive, Warnings: c.Has.Warnings})
}

func (c *Client) Keep(_ context.Context, req api.KeepRequest) (*api.Session, error) {
	got(c, &c.Got.Kept, req)
	if c.Has.Kept != nil {
		return reply(c, c.Has.Kept)
	}
	return reply(c, &api.Session{
		ID: "kept00", Live: 2, Kept: true, Until: &req.Until, Reason: req.Reason, Warnings: c.Has.Warnings,
	})
}

func (c *Client) Mark(_ context.Context, req api.MarkRequest) (*api.Mark, error) {
	if c.On.Mark != nil {
		if err := c.On.Mark(req); err != nil {
			return nil, err
		}
	}
	got(c, &c.Got.Marks, req)
	return reply(c, &api.Mark{})
}

func (c *Client) Tree(ctx context.Context, s, dead string) (*api.Tree, error) {
	found, err := c.Session(ctx, s)
	if err != nil {
		return nil, err
	}
	return c.tree(found.ID, dead), nil
}

// tree is a copy of a session's tree.
func (c *Client) tree(id, dead string) *api.Tree {
	c.Lock()
	defer c.Unlock()
	t := &api.Tree{}
	if has := c.Has.Trees[id]; has != nil {
		*t = *has
		t.Nodes = slices.Clone(t.Nodes)
	}
	if c.On.Tree != nil {
		c.On.Tree(t, dead)
	}
	return t
}

func (c *Client) Process(_ context.Context, ref string) (*api.Process, error) {
	if c.On.Process != nil {
		return c.On.Process(ref)
	}
	r, err := api.ParseRef(ref)
	if err != nil {
		return nil, api.NewError(api.CodeBadRequest, err.Error(), "")
	}
	for _, t := range c.Has.Trees {
		for i := range t.Nodes {
			if p := &t.Nodes[i].Process; p.PID == r.PID {
				return reply(c, p)
			}
		}
	}
	if w := c.Has.Whys[r.PID]; w != nil {
		return reply(c, &w.Process)
	}
	return nil, notFound("pid %d", r.PID)
}

func (c *Client) Orphans(context.Context, string) (*api.Orphans, error) {
	return reply(c, c.Has.Orphans)
}

func (c *Client) Leaks(context.Context) (*api.Leaks, error) { return reply(c, c.Has.Leaks) }

func (c *Client) Events(ctx context.Context, q api.EventsQuery, each func(*api.Event) error) error {
	if q.Session != "" && c.Has.Sessions != nil {
		if _, err := c.Session(ctx, q.Session); err != nil {
			return err
		}
	}
	got(c, &c.Got.Events, q)
	if c.On.Events != nil {
		return c.On.Events(ctx, q, each)
	}
	for _, ev := range c.Has.Events {
		if q.Session != "" && ev.Session != "" && ev.Session != q.Session {
			continue
		}
		if err := each(&ev); err != nil {
			return err
		}
	}
	return c.Refuse
}

func (c *Client) Watch(ctx context.Context, each func(*api.Frame) error) error {
	if c.On.Watch != nil {
		return c.On.Watch(ctx, each)
	}
	return c.Refuse
}

// History has the ended sessions, in small pages.
func (c *Client) History(_ context.Context, q api.HistoryQuery) (*api.Sessions, error) {
	if c.On.History != nil {
		return c.On.History(q)
	}
	got(c, &c.Got.History, q)
	c.Lock()
	defer c.Unlock()
	list := &api.Sessions{}
	for _, s := range c.Has.Sessions {
		if s.State == api.StateEnded && (s.Ended == nil || !s.Ended.Before(q.Since)) {
			list.Items = append(list.Items, s)
		}
	}
	from, _ := strconv.Atoi(q.Next)
	list.Items = list.Items[min(from, len(list.Items)):]
	if n := min(q.Limit, 2); len(list.Items) > n {
		list.Items, list.Next = list.Items[:n], strconv.Itoa(from+n)
	}
	return reply(c, list)
}

func (c *Client) Policy(context.Context) (*api.Policy, error) {
	if c.On.Policy != nil {
		return c.On.Policy()
	}
	return reply(c, c.Has.Policy)
}

func (c *Client) PolicyReload(context.Context) (*api.Policy, error) { return reply(c, c.Has.Policy) }

func (c *Client) PolicyResume(context.Context) (*api.Policy, error) { return reply(c, c.Has.Policy) }

func (c *Client) Halt(_ context.Context, req api.HaltRequest) (*api.Halted, error) {
	got(c, &c.Got.Halts, req)
	return reply(c, c.Has.Halted)
}

func (c *Client) PolicyExplain(_ context.Context, ref string) (*api.PolicyExplain, error) {
	if c.On.Explain != nil {
		return c.On.Explain(ref)
	}
	return reply[api.PolicyExplain](c, nil)
}
