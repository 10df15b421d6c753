package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// fake is a daemon in memory.
type fake struct {
	refuse   error  // what every call but Version returns
	hold     func() // called before Session answers
	sessions []api.Session
	trees    map[string]*api.Tree
	whys     map[int]*api.Why
	stream   []api.Event
	streams  func(ctx context.Context, q api.EventsQuery, each func(*api.Event) error) error // instead of stream

	watch        func(ctx context.Context, each func(*api.Frame) error) error
	planned      func(*api.Plan) // changes a plan
	checked      *api.SelfCheck
	degraded     []string
	capabilities []string
	asked        api.PathRef
	noHolders    bool // of a path

	orphans        *api.Orphans
	leaks          *api.Leaks
	killed         []string
	branches, also []string // requested to end; what ends with them
	created        []api.NewSession
	kept           []api.KeepRequest

	historyAsked []api.HistoryQuery
	eventsAsked  []api.EventsQuery

	shown   int                                                      // how many sessions were requested
	mu      sync.Mutex                                               // guards sessions, trees, ends and shown
	ends    []string                                                 // what was requested to end
	end     func(id string, req api.EndRequest) (*api.Report, error) // nil: clean at once
	reports func(ctx context.Context, id string, wait time.Duration) (*api.Report, error)
}

func (f *fake) Close() error { return nil }

func (f *fake) Version(context.Context) (*api.Version, error) {
	return &api.Version{Head: text.Head("version"), Version: "v1.2.4", API: 1, ABI: "8f14e45f", PID: 700, Level: 4, Mode: "observe", Started: at(-3600)}, nil
}

func (f *fake) Status(context.Context) (*api.Status, error) {
	return &api.Status{SelfCheck: f.checked, Capabilities: f.capabilities, Degraded: f.degraded}, f.refuse
}

func (f *fake) Sessions(_ context.Context, state, _ string) (*api.Sessions, error) {
	list := &api.Sessions{}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		if state == "all" || (state == "ended") == (s.State == "ended") {
			list.Items = append(list.Items, s)
		}
	}
	return list, f.refuse
}

func (f *fake) Session(_ context.Context, name string) (*api.Session, error) {
	if f.hold != nil {
		f.hold()
	}
	f.mu.Lock()
	f.shown++
	f.mu.Unlock()
	return f.find(name)
}

func (f *fake) find(name string) (*api.Session, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	for i := range f.sessions {
		if f.sessions[i].ID == name || f.sessions[i].Name == name {
			return &f.sessions[i], nil
		}
	}
	return nil, api.NewError(api.CodeNotFound, fmt.Sprintf("session %s: not found", name), "")
}

func (f *fake) Create(_ context.Context, req api.NewSession) (*api.Session, error) {
	f.created = append(f.created, req)
	s := &api.Session{ID: "found0", Name: req.Name, Live: 3, State: "active"}
	if req.Name == "partly" {
		s.Warnings = []string{"pid 5 (rootd) and its descendants are not adopted: it runs as uid 0"}
	}
	return s, f.refuse
}

func (f *fake) Tree(ctx context.Context, name, dead string) (*api.Tree, error) {
	s, err := f.Session(ctx, name)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	t := *f.trees[s.ID]
	f.mu.Unlock()
	if dead == "all" {
		t.Nodes = append(t.Nodes[:len(t.Nodes):len(t.Nodes)], api.Node{Process: exited(4124, "true", 0)})
		t.Nodes[0].Children = append(t.Nodes[0].Children[:len(t.Nodes[0].Children):len(t.Nodes[0].Children)], ref(4124))
	}
	return &t, nil
}

func (f *fake) PlanBranch(ctx context.Context, ref string) (*api.Plan, error) {
	p, err := f.Process(ctx, ref)
	if err != nil {
		return nil, err
	}
	plan := &api.Plan{Session: f.sessions[0].ID, Branch: &p.Ref, State: "active", Token: "b4a9c4", Processes: []api.PlanProcess{{Process: *p, Why: "forked by 4120 claude", Killable: true}}}
	if f.planned != nil {
		f.planned(plan)
	}
	return plan, f.refuse
}

func (f *fake) EndBranch(ctx context.Context, ref string, req api.EndRequest) (*api.Report, error) {
	if req.PlanToken != "" {
		ref += " plan=" + req.PlanToken
	}
	f.branches = append(f.branches, ref)
	r, err := f.End(ctx, f.sessions[1].ID, req)
	if err == nil {
		f.ends = f.ends[:len(f.ends)-1]
		r.Also = f.also
	}
	return r, err
}

func (f *fake) End(_ context.Context, name string, req api.EndRequest) (*api.Report, error) {
	s, err := f.find(name)
	if err != nil {
		return nil, err
	}
	id := s.ID
	f.mu.Lock()
	defer f.mu.Unlock()
	what := id
	if req.GraceMS != nil {
		what += fmt.Sprintf(" grace=%d", *req.GraceMS)
	}
	if req.Now {
		what += " now"
	}
	if req.PlanToken != "" {
		what += " plan=" + req.PlanToken
	}
	f.ends = append(f.ends, what)
	if f.end != nil {
		return f.end(id, req)
	}
	r := cleanReport(id)
	if s.State == api.StateEnded {
		r.Ended = s.Ended
	}
	return r, nil
}

func (f *fake) Kill(_ context.Context, name string, req api.KillRequest) (*api.Killed, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.killed = append(f.killed, name+" "+req.Signal)
	r, err := api.ParseRef(name)
	if err != nil || r.StartNS == 0 {
		return nil, api.NewError(api.CodeBadRequest, "want PID@START_NS", "")
	}
	return &api.Killed{Process: api.Process{Ref: r, Comm: "make"}, Outcome: "sent"}, nil
}

func (f *fake) Watch(ctx context.Context, _ api.WatchQuery, each func(*api.Frame) error) error {
	if f.watch != nil {
		return f.watch(ctx, each)
	}
	return f.refuse
}

func (f *fake) Plan(ctx context.Context, name string) (*api.Plan, error) {
	s, err := f.Session(ctx, name)
	if err != nil {
		return nil, err
	}
	p := &api.Plan{Session: s.ID, Name: s.Name, State: s.State, Processes: []api.PlanProcess{}}
	if s.State == "ended" {
		return p, nil
	}
	p.Token = "5f3a9c01"
	for i, n := range f.trees[s.ID].Nodes {
		if n.State != "live" {
			continue
		}
		pp := api.PlanProcess{Process: n.Process, Why: "forked by 4121 sh", Killable: n.Task != "D"}
		switch {
		case i == 0:
			pp.Why = "root"
			pp.Ports = []api.Port{heldPort}
		case n.PID == 4130:
			pp.Locks = []api.Lock{heldLock, {Type: "file", Path: "/repo/.git/index.lock", PID: 4130}}
		}
		if !pp.Killable {
			pp.Reason = "state D (nfs_wait)"
		}
		p.Processes = append(p.Processes, pp)
	}
	if f.planned != nil {
		f.planned(p)
	}
	return p, nil
}

var (
	heldPort = api.Port{Proto: "tcp6", Addr: "::1", Port: 8080, PID: 4121, StartNS: 4121000, Netns: 4026531840}
	heldLock = api.Lock{Type: "flock", Mode: "write", Path: "/var/x\x1b[31m.db", PID: 4130, StartNS: 4130000, Waiting: []int{77, 78}}
)

func (f *fake) WhyPort(_ context.Context, proto string, port int) (*api.Holders, error) {
	if proto != "tcp" || port != 8080 {
		return nil, api.NewError(api.CodeNotFound, fmt.Sprintf("no listener found on %d/%s", port, proto), "")
	}
	w := *f.whys[4130]
	w.Holds = &api.Holds{Ports: []api.Port{heldPort}}
	kernel := api.Why{Holds: &api.Holds{Ports: []api.Port{{Proto: "tcp", Addr: "0.0.0.0", Port: 8080}}}}
	return &api.Holders{Items: []api.Why{w, kernel}, TimeWait: 2, Hidden: 1, Unknown: []string{"holders: pid 1 could not be read"}}, nil
}

func (f *fake) WhyPortAt(_ context.Context, port int, at time.Time) (*api.Holders, error) {
	w := *f.whys[4130]
	since, until := at.Add(-time.Minute), at.Add(time.Minute)
	p := heldPort
	p.Port, p.Since, p.Until = port, &since, &until
	w.Holds = &api.Holds{Ports: []api.Port{p}}
	return &api.Holders{Items: []api.Why{w}}, nil
}

func (f *fake) WhyPath(_ context.Context, file api.PathRef) (*api.Holders, error) {
	f.asked = file
	if f.noHolders {
		return nil, api.NewError(api.CodeNotFound, "no process found that has the path open or locked", "")
	}
	w := *f.whys[900]
	w.Holds = &api.Holds{Locks: []api.Lock{heldLock}, Files: []api.File{{Path: heldLock.Path, Access: "read_write", PID: 900}}, Unknown: []string{"pid 900: timed out"}}
	return &api.Holders{Items: []api.Why{w}}, nil
}

func (f *fake) Report(ctx context.Context, id string, wait time.Duration) (*api.Report, error) {
	if f.reports == nil {
		return cleanReport(id), nil
	}
	return f.reports(ctx, id, wait)
}

func (f *fake) Process(_ context.Context, name string) (*api.Process, error) {
	r, err := api.ParseRef(name)
	if err != nil {
		return nil, api.NewError(api.CodeBadRequest, err.Error(), "")
	}
	for _, t := range f.trees {
		for i := range t.Nodes {
			if n := &t.Nodes[i].Process; n.PID == r.PID {
				return n, nil
			}
		}
	}
	if w, ok := f.whys[r.PID]; ok {
		return &w.Process, nil
	}
	return nil, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d: not found", r.PID), "")
}

func (f *fake) Why(_ context.Context, name string) (*api.Why, error) {
	r, err := api.ParseRef(name)
	if err != nil {
		return nil, err
	}
	w, ok := f.whys[r.PID]
	switch {
	case !ok:
		return nil, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d: not found", r.PID), "")
	case r.StartNS != 0 && r.StartNS != w.Process.StartNS:
		return nil, api.NewError(api.CodeIdentity, fmt.Sprintf("pid %d is not the process you named (%s is gone); nothing was sent", r.PID, r), "")
	}
	return w, nil
}

func (f *fake) Events(ctx context.Context, q api.EventsQuery, each func(*api.Event) error) error {
	if q.Session != "" {
		if _, err := f.Session(ctx, q.Session); err != nil {
			return err
		}
	}
	f.eventsAsked = append(f.eventsAsked, q)
	if f.streams != nil {
		return f.streams(ctx, q, each)
	}
	for _, ev := range f.stream {
		if err := each(&ev); err != nil {
			return err
		}
	}
	return f.refuse
}

func (f *fake) History(_ context.Context, q api.HistoryQuery) (*api.Sessions, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.historyAsked = append(f.historyAsked, q)
	list := &api.Sessions{}
	for _, s := range f.sessions {
		if s.State == "ended" {
			list.Items = append(list.Items, s)
		}
	}
	// Two sessions a page.
	from, _ := strconv.Atoi(q.Next)
	list.Items = list.Items[min(from, len(list.Items)):]
	if n := min(2, q.Limit); len(list.Items) > n {
		list.Items, list.Next = list.Items[:n], strconv.Itoa(from+n)
	}
	return list, nil
}

func (f *fake) Stop(context.Context, bool, bool) error { return f.refuse }

// ref makes a process reference whose start follows from the PID.
func ref(pid int) api.Ref { return api.Ref{PID: pid, StartNS: api.U64(pid * 1000)} }

func live(pid int, argv ...string) api.Process {
	uid := 1000
	return api.Process{Ref: ref(pid), Session: "k3x9q2", Comm: argv[0], Argv: argv, UID: &uid, State: "live", Task: "S",
		Started: at(pid - 4200), Evidence: &api.Evidence{Kind: "fork", Confidence: "strong"}, CPUSeconds: 1.5, RSSBytes: 3 << 20}
}

func exited(pid int, comm string, code int) api.Process {
	return api.Process{Ref: ref(pid), Session: "k3x9q2", Comm: comm, Argv: []string{comm}, State: "exited", Exited: at(-12), ExitCode: &code,
		Evidence: &api.Evidence{Kind: "fork", Confidence: "strong"}}
}

func by(p api.Process, creator, parent int) api.Process {
	c, r := ref(creator), ref(parent)
	p.Creator, p.Parent = &c, &r
	return p
}

func newFake() *fake {
	owner := ref(4100)
	root := by(live(4121, "sh", "-c", "make & wait"), 4100, 4100)
	root.Evidence = &api.Evidence{Kind: "root", Confidence: "strong"}
	build := api.Session{ID: "k3x9q2", Name: "build", UID: 1000, State: "active", Root: &root, Owner: &owner, Live: 5, Peak: 9, Forks: 17,
		Orphans: 1, Zombies: 1, CPUSeconds: 75.5, RSSBytes: 123 << 20, Started: at(-79), GraceSeconds: 5, Level: 4, Mode: "observe", Evidence: "root"}
	stuck := live(5000, "dd", "if=/dev/mem")
	stuck.Task, stuck.Session = "D", "m8p4z1"
	ending := api.Session{ID: "m8p4z1", UID: 0, State: "condemned", Root: &stuck, Live: 1, CPUSeconds: 0.25, RSSBytes: 900,
		Started: at(-90000), EndReason: "end", GraceSeconds: 0.25, Level: 4, Mode: "observe", Evidence: "adopted"}
	over := api.Session{ID: "e7d7c7", Name: "old", UID: 1000, State: "ended", Started: at(-7200), Ended: at(-3600), EndReason: "root_exit", Verdict: "clean",
		GraceSeconds: 5, Level: 4, Mode: "observe"}

	orphan := by(live(4130, "sleep", "300"), 4122, 4100)
	orphan.Orphan = true
	middle := by(exited(4122, "sh", 0), 4121, 4121)
	make_ := by(live(4123, "make", "-j2"), 4121, 4121)
	sibling := by(live(4128, "cc", "-o", "a b", "x.c"), 4123, 4121)
	sibling.Evidence = &api.Evidence{Kind: "adopted", Source: "ppid", Confidence: "weak"}
	zombie := by(exited(4127, "as", 0), 4123, 4123)
	zombie.State, zombie.ExitCode, zombie.Signal = "zombie", nil, "SIGSEGV"
	node := func(p api.Process, children ...int) api.Node {
		n := api.Node{Process: p}
		for _, c := range children {
			n.Children = append(n.Children, ref(c))
		}
		return n
	}
	tree := &api.Tree{Session: &build, Roots: []api.Ref{ref(4121)}, Nodes: []api.Node{
		node(root, 4122, 4123), node(middle, 4130), node(orphan), node(make_, 4125, 4126, 4127, 4128),
		node(by(exited(4125, "cpp", 1), 4123, 4123)), node(by(exited(4126, "cpp", 1), 4123, 4123)), node(zombie), node(sibling),
	}}
	fork := api.Evidence{Kind: "fork", Confidence: "strong"}
	init := api.Process{Ref: api.Ref{PID: 4100, StartNS: 4100000}, Comm: "lineage", Argv: []string{"lineage", "run", "--", "sh"}, State: "live"}
	return &fake{
		sessions: []api.Session{build, ending, over},
		trees: map[string]*api.Tree{"k3x9q2": tree, "m8p4z1": {Session: &ending, Roots: []api.Ref{ref(5000)}, Nodes: []api.Node{node(stuck)}},
			"e7d7c7": {Session: &over, Roots: []api.Ref{ref(4121)}, Nodes: []api.Node{node(by(exited(4121, "sh", 3), 4100, 4100), 4123), node(by(exited(4123, "make", 2), 4121, 4121))}}},
		whys: map[int]*api.Why{
			900: {Process: api.Process{Ref: ref(900), Comm: "cron", State: "live"}, Parent: &api.Process{Ref: api.Ref{PID: 1, StartNS: 5}, Comm: "init"}},
			4130: {Process: orphan, Parent: &init, Session: &build, Edges: []api.Edge{
				{Child: orphan, Creator: &api.EdgeEnd{Ref: ref(4122), Comm: "sh", Argv: []string{"sh", "-c", "sleep 300 &"}, Exited: at(-12)}, Kind: "fork", Time: at(-13), Evidence: fork,
					Reparented: []api.Reparents{{Time: at(-12), From: new(ref(4122)), To: new(ref(4100))}}},
				{Child: middle, Creator: &api.EdgeEnd{Ref: ref(4121), Comm: "sh", Alive: true}, Kind: "clone_parent", Time: at(-90000), Evidence: api.Evidence{Kind: "adopted", Source: "ppid", Confidence: "weak"}},
				{Child: root, Kind: "root", Time: at(-79), Evidence: api.Evidence{Kind: "root", Confidence: "strong"}},
			}},
		},
		stream: []api.Event{
			{Head: text.Head("recording"), BootID: "b0", Version: "v1.2.4", Started: at(-1)},
			{Head: api.Head{Kind: "process"}, Process: &root},
			{Head: api.Head{Kind: "process"}, Process: &orphan},
			{Head: api.Head{Kind: "heartbeat"}, TimeNS: 5},
			{Seq: 7, TimeNS: 12_500_000_000, Type: "fork", Process: new(by(live(4140, "sh"), 4121, 4121)), Session: "k3x9q2"},
			{Seq: 8, Time: at(0), Type: "fork", Process: new(by(live(4141, "sh"), 4140, 4121)), Session: "k3x9q2"},
			{Seq: 9, Time: at(1), Type: "exec", Process: new(live(4140, "git", "gc", "--auto")), Session: "k3x9q2"},
			{Seq: 10, Time: at(1), Type: "reparent", Process: new(live(4141, "sh")), From: new(ref(4140)), To: new(ref(4100)), Session: "k3x9q2"},
			{Seq: 11, Time: at(2), Type: "exit", Process: new(exited(4140, "git", 3)), Session: "k3x9q2"},
			{Seq: 12, Time: at(2), Type: "reaped", Process: new(exited(4140, "git", 3)), Session: "k3x9q2"},
			{Seq: 13, Time: at(3), Type: "lost", Count: 12, Where: "ring", LostFrom: 13, LostTo: 24},
			{Seq: 25, Time: at(4), Type: "session", Session: "k3x9q2", State: "ended", Reason: "root_exit"},
			{Head: api.Head{Kind: "end"}, Reason: "session_over"},
		},
	}
}

func cleanReport(id string) *api.Report {
	return &api.Report{Session: id, State: "ended", EndReason: "end", Verdict: "clean", DurationMS: 12.3456, Started: 9, Exited: 5, Killed: 1, ConfirmedEmpty: true,
		Processes: []api.Outcome{
			{Ref: ref(4121), Comm: "sh", Argv: []string{"sh", "-c", "make & wait"}, Outcome: "term"},
			{Ref: ref(4123), Comm: "make", Outcome: "self"},
			{Ref: ref(4128), Comm: "cc", Outcome: "kept", Why: "rule compilers, until 13:00"},
			{Ref: ref(4130), Comm: "sleep", Argv: []string{"sleep", "300"}, Outcome: "kill"},
		},
		Zombies:       []api.Zombie{{Ref: ref(4127), Comm: "as", Reaper: &api.Process{Ref: ref(4100), Comm: "lineage"}}},
		PortsFreed:    []api.Port{heldPort},
		PortsTimeWait: []api.Port{{Proto: "tcp6", Addr: "::1", Port: 8080, Connections: 3}},
		PortsBusy:     []api.Port{{Proto: "udp", Addr: "0.0.0.0", Port: 53, PID: 77}},
		LocksReleased: []api.Lock{heldLock}, WouldEnd: []string{"idle", "max_rss"},
		OutputHeldBy: []api.Process{{Ref: ref(78), Comm: "tmux"}},
		HoldsUnknown: []string{"pid 4128: timed out"}}
}

func (f *fake) Keep(_ context.Context, req api.KeepRequest) (*api.Session, error) {
	f.kept = append(f.kept, req)
	return &api.Session{ID: "kept00", Live: 2, Kept: true, Until: &req.Until, Reason: req.Reason, Warnings: []string{"pid 5 loses its terminal when pid 4 ends"}}, f.refuse
}

func (f *fake) Mark(context.Context, api.MarkRequest) (*api.Mark, error) {
	return &api.Mark{}, f.refuse
}
