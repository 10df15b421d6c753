package main

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
)

var (
	heldPort = api.Port{Proto: "tcp6", Addr: "::1", Port: 8080, PID: 4121, StartNS: 4121000, Netns: 4026531840}
	heldLock = api.Lock{Type: "flock", Mode: "write", Path: "/var/x\x1b[31m.db", PID: 4130, StartNS: 4130000, Waiting: []int{77, 78}}
)

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

// newFake is a daemon with three sessions: active, condemned and ended.
func newFake() *apitest.Client {
	owner := ref(4100)
	root := by(live(4121, "sh", "-c", "make & wait"), 4100, 4100)
	root.Evidence = &api.Evidence{Kind: "root", Confidence: "strong"}
	build := api.Session{ID: "k3x9q2", Name: "build", UID: 1000, State: "active", Root: &root, Owner: &owner, Live: 5, Peak: 9, Forks: 17,
		Orphans: 1, Zombies: 1, CPUSeconds: 75.5, RSSBytes: 123 << 20, Started: at(-79), GraceSeconds: 5, Level: 4, Mode: "observe", Evidence: "root"}
	stuck := live(5000, "dd", "if=/dev/mem")
	stuck.Task, stuck.Session = "D", "m8p4z1"
	ending := api.Session{ID: "m8p4z1", UID: 0, State: "condemned", Root: &stuck, Live: 1, CPUSeconds: 0.25, CPUs: 1.75, RSSBytes: 900,
		Started: at(-90000), EndReason: "end", GraceSeconds: 0.25, Level: 4, Mode: "observe", Evidence: "adopted"}
	over := api.Session{ID: "e7d7c7", Name: "old", Parent: "k3x9q2", UID: 1000, State: "ended", Started: at(-7200),
		Ended: at(-3600), EndReason: "root_exit", Verdict: "clean",
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
	f := &apitest.Client{Has: apitest.Has{
		Version: &api.Version{Head: api.NewHead("version"), Version: "v1.2.4", API: 1, ABI: "8f14e45f", PID: 700, Level: 4, Mode: "observe", Started: at(-3600)},
		Status: &api.Status{Level: 4, Mode: "observe", RefusesForks: "lsm", SelfProtect: true, SelfCheck: &api.SelfCheck{OK: true, At: at(-60)},
			Sessions: 2, Live: 6},
		Report:   cleanReport(""),
		Orphans:  orphans(),
		Policy:   loadedPolicy(),
		Sessions: []api.Session{build, ending, over},
		Trees: map[string]*api.Tree{
			"k3x9q2": tree,
			"m8p4z1": {Session: &ending, Roots: []api.Ref{ref(5000)}, Nodes: []api.Node{node(stuck)}},
			"e7d7c7": {
				Session: &over,
				Roots:   []api.Ref{ref(4121)},
				Nodes:   []api.Node{node(by(exited(4121, "sh", 3), 4100, 4100), 4123), node(by(exited(4123, "make", 2), 4121, 4121))},
			},
		},
		Whys: map[int]*api.Why{
			900: {Process: api.Process{Ref: ref(900), Comm: "cron", State: "live"}, Parent: &api.Process{Ref: api.Ref{PID: 1, StartNS: 5}, Comm: "init"}},
			4130: {Process: orphan, Parent: &init, Session: &build, Edges: []api.Edge{
				{
					Child:      orphan,
					Creator:    &api.EdgeEnd{Ref: ref(4122), Comm: "sh", Argv: []string{"sh", "-c", "sleep 300 &"}, Exited: at(-12)},
					Kind:       "fork",
					Time:       at(-13),
					Evidence:   fork,
					Reparented: []api.Reparents{{Time: at(-12), From: new(ref(4122)), To: new(ref(4100))}},
				},
				{
					Child:    middle,
					Creator:  &api.EdgeEnd{Ref: ref(4121), Comm: "sh", Alive: true},
					Kind:     "clone_parent",
					Time:     at(-90000),
					Evidence: api.Evidence{Kind: "adopted", Source: "ppid", Confidence: "weak"},
				},
				{Child: root, Kind: "root", Time: at(-79), Evidence: api.Evidence{Kind: "root", Confidence: "strong"}},
			}},
		},
		Events: []api.Event{
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
	}}
	f.On = apitest.On{
		Tree: func(t *api.Tree, dead string) {
			if dead == "all" {
				t.Nodes = append(t.Nodes, api.Node{Process: exited(4124, "true", 0)})
				first := &t.Nodes[0]
				first.Children = append(first.Children[:len(first.Children):len(first.Children)], ref(4124))
			}
		},
		Plan: func(p *api.Plan) error {
			for i := range p.Processes {
				switch x := &p.Processes[i]; {
				case x.Why == "root":
					x.Ports = []api.Port{heldPort}
				case x.Process.PID == 4130:
					x.Locks = []api.Lock{heldLock, {Type: "file", Path: "/repo/.git/index.lock", PID: 4130}}
				}
			}
			return nil
		},
		Explain: explain,
		WhyPort: func(proto string, port int) (*api.Holders, error) {
			if proto != "tcp" || port != 8080 {
				return nil, api.NewError(api.CodeNotFound, fmt.Sprintf("no listener found on %d/%s", port, proto), "")
			}
			w := *f.Has.Whys[4130]
			w.Holds = &api.Holds{Ports: []api.Port{heldPort}}
			kernel := api.Why{Holds: &api.Holds{Ports: []api.Port{{Proto: "tcp", Addr: "0.0.0.0", Port: 8080}}}}
			return &api.Holders{Items: []api.Why{w, kernel}, TimeWait: 2, Hidden: 1, Unknown: []string{"open files of PID 1 could not be read"}}, nil
		},
		WhyPath: func(api.PathRef) (*api.Holders, error) {
			w := *f.Has.Whys[900]
			w.Holds = &api.Holds{Locks: []api.Lock{heldLock}, Files: []api.File{{Path: heldLock.Path, Access: "read_write", PID: 900}},
				Unknown: []string{"pid 900: timed out"}}
			return &api.Holders{Items: []api.Why{w}}, nil
		},
	}
	return f
}

func cleanReport(id string) *api.Report {
	return &api.Report{Session: id, State: "ended", EndReason: "end", Verdict: "clean", DurationMS: 12.3456, Started: 9, Exited: 5, Killed: 1, ConfirmedEmpty: true,
		Processes: []api.Outcome{
			{Ref: ref(4121), Comm: "sh", Argv: []string{"sh", "-c", "make & wait"}, Outcome: "term"},
			{Ref: ref(4123), Comm: "make", Outcome: "self"},
			{Ref: ref(4128), Comm: "cc", Outcome: "kept", Session: "p4v9zn", Why: "session p4v9zn until 13:00 by rule compilers"},
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
