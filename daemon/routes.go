//go:build linux

package daemon

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
)

// routes are all routes of the API, by method and path.
func (s *server) routes() map[string]route {
	none := body[struct{}](s)
	return map[string]route{
		"GET /v1/version":               onHost(s, access.Hello, "", params(), s.getVersion),
		"GET /v1/status":                onHost(s, access.Hello, "", params(), s.getStatus),
		"GET /v1/sessions":              s.abreast(onEach(s.getSessions, access.Read)),
		"POST /v1/sessions":             onTarget(s.postSession, access.Create, access.Adopt),
		"GET /v1/sessions/{s}":          s.abreast(onTarget(s.getSession, access.Read)),
		"GET /v1/sessions/{s}/tree":     s.abreast(onTarget(s.getTree, access.Read)),
		"GET /v1/sessions/{s}/report":   onTarget(s.getReport, access.Read),
		"POST /v1/keep":                 onTarget(s.postKeep, access.Keep),
		"POST /v1/sessions/{s}/end":     onTarget(s.postEnd, access.End),
		"POST /v1/sessions/{s}/plan":    s.abreast(onTarget(s.postPlan, access.Read)),
		"GET /v1/processes/{ref}":       s.abreast(onTarget(s.getProcess, access.Read)),
		"GET /v1/why":                   s.abreast(onEach(s.getWhy, access.Read)),
		"GET /v1/orphans":               s.abreast(onEach(s.getOrphans, access.Read)),
		"GET /v1/leaks":                 s.abreast(onEach(s.getLeaks, access.Read)),
		"GET /v1/events":                s.abreast(onTarget(s.getEvents, access.Read)),
		"GET /v1/history":               onHost(s, access.Read, "history", params("since", "until", "limit", "next"), s.getHistory),
		"GET /v1/watch":                 onTarget(s.getWatch, access.Read),
		"POST /v1/daemon/stop":          onHost(s, access.Manage, "daemon", body[api.StopRequest](s), s.postStop),
		"POST /v1/resync":               onHost(s, access.Manage, "graph", none, s.postResync),
		"GET /metrics":                  onHost(s, access.Metrics, "", params(), s.getMetrics),
		"POST /v1/selfcheck":            onHost(s, access.Manage, "daemon", none, s.postSelfCheck),
		"GET /v1/policy":                onHost(s, access.Read, "policy", params(), s.getPolicy),
		"GET /v1/policy/explain":        s.abreast(onHost(s, access.Read, "policy", params("ref"), s.getExplain)),
		"POST /v1/policy/reload":        onHost(s, access.Manage, "policy", none, s.postReload),
		"POST /v1/policy/resume":        onHost(s, access.Manage, "policy", none, s.postResume),
		"POST /v1/processes/{ref}/kill": onTarget(s.postKill, access.Kill),
	}
}

func (s *server) getVersion(w http.ResponseWriter, _ *http.Request, _ access.Caller, _ url.Values) error {
	f := s.kernel.Features()
	return reply(w, http.StatusOK, api.Version{
		Head: head("version"), Version: s.version, API: api.Major, ABI: f.ABI, PID: s.pid,
		Ephemeral: s.ephemeral, Level: f.Level, Mode: s.rules.mode(), Started: &s.started,
	})
}

func (s *server) getStatus(w http.ResponseWriter, _ *http.Request, c access.Caller, _ url.Values) error {
	f := s.kernel.Features()
	d := api.Status{Head: head("status"), Level: f.Level, Capabilities: s.privileges.held, Missing: f.Missing, Limits: f.Limits, Mode: s.rules.mode(), Breaker: s.rules.breakerState(),
		RefusesForks: f.Refuses.String(), SelfProtect: s.self.on, SelfCheck: s.selfCheck.result()}
	err := s.owner.read(c, func() {
		o := s.owner
		d.Degraded = s.degradations()
		d.Lost, d.Sessions = o.lost, o.live()
		for _, x := range o.sessions {
			if !x.closed && x.info.Parent == 0 { // nested members count in their ancestors
				o.refresh(x)
				d.Live += int(max(x.info.Live, 0))
			}
		}
		if access.Decide(c, access.Metrics, access.Scope{}).Allow {
			d.Counters = make(map[string]uint64, len(o.counters)+len(o.misses))
			for name, n := range o.counters {
				d.Counters[name] = n
			}
			for name, n := range o.misses {
				d.Counters["recursion_misses."+name] = n
			}
			d.Counters["readers_dropped"] = s.tally.dropped.Load()
			s.recorder.count(d.Counters)
		}
	})
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, d)
}

// degradations says what does not work as it should. It is called by the owner.
func (s *server) degradations() []string {
	all := append(slices.Clone(s.kernel.Features().Degraded), s.owner.degraded...)
	all = append(all, s.rules.degraded()...)
	all = append(all, s.selfCheck.degraded()...)
	all = append(all, s.exporter.Degraded()...)
	if err := s.audit.Err(); err != nil {
		all = append(all, "audit records are being lost: "+err.Error())
	}
	if err := s.self.err; err != nil {
		all = append(all, "self_protect: "+err.Error())
	}
	all = append(all, s.recorder.degraded()...)
	if err := s.privileges.err; err != nil {
		all = append(all, "privileges were not given up: "+err.Error())
	}
	return all
}

// refresh takes the kernel's counts of a session.
func (o *owner) refresh(s *session) {
	if s.closed {
		return
	}
	if info, err := o.kernel.Session(s.info.ID); err == nil && info.ID == s.info.ID {
		info.State = max(info.State, s.info.State)
		s.info = info
	}
}

func (s *server) getSessions(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	q, err := query(r, "state", "name")
	if err != nil {
		return err
	}
	state := cmp.Or(q.Get("state"), "live")
	if !slices.Contains([]string{"live", "ended", "all"}, state) {
		return api.NewError(api.CodeBadRequest, fmt.Sprintf("unknown state %q", state), "known: live, ended, all")
	}
	d := api.Sessions{Head: head("sessions"), Items: []api.Session{}}
	err = s.owner.read(c, func() {
		for _, x := range s.owner.sorted() {
			if x.closed || state == "ended" ||
				q.Get("name") != "" && x.info.Name != q.Get("name") ||
				!access.Decide(c, access.Read, s.owner.scope(x)).Allow {
				continue
			}
			s.owner.refresh(x)
			item := s.owner.session(x, c)
			item.Head = api.Head{Kind: "session"}
			d.Items = append(d.Items, item)
		}
	})
	if err == nil && state != "live" {
		err = s.addEnded(r.Context(), &d, q.Get("name"), c)
	}
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, d)
}

// sorted gives the sessions, oldest first.
func (o *owner) sorted() []*session {
	all := make([]*session, 0, len(o.sessions))
	for _, x := range o.sessions {
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.info.Created, b.info.Created), cmp.Compare(a.info.ID, b.info.ID))
	})
	return all
}

func (s *server) getSession(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	if _, err := query(r); err != nil {
		return err
	}
	var d api.Session
	err := s.withSession(r.PathValue("s"), c, access.Read, func(x *session) {
		s.owner.refresh(x)
		d = s.owner.session(x, c)
		d.Head = head("session")
	})
	if unremembered(err) {
		p, err := s.past(r.Context(), r.PathValue("s"), c, access.Read, err)
		if err != nil {
			return err
		}
		return reply(w, http.StatusOK, p.session())
	}
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, d)
}

// withSession finds a session, decides, and runs f in the owner's goroutine.
func (s *server) withSession(word string, c access.Caller, v access.Verb, f func(*session)) error {
	var refused error
	ask := s.owner.do
	if v == access.Read {
		ask = func(f func()) error { return s.owner.read(c, f) }
	}
	err := ask(func() {
		x, err := s.owner.find(word, c)
		if err != nil {
			refused = err
			return
		}
		if d := access.Decide(c, v, s.owner.scope(x)); !d.Allow {
			refused = s.access.Refuse(c, v, word, d)
			return
		}
		f(x)
	})
	if err != nil {
		return err
	}
	return refused
}

// find names a session by id, else by name: live ones first, then the newest
// ended one, and among them those first that the caller may read. Of several
// live ones that of the caller's own uid is meant: others cannot make a name
// ambiguous for root.
func (o *owner) find(word string, c access.Caller) (*session, error) {
	var live, readable, own []*session
	var ended, named *session
	for _, x := range o.sorted() {
		if x.info.ID.String() == word && (named == nil || named.closed) {
			named = x // an agent's session may have the id of one that is over
		}
		if x.info.Name != word || word == "" {
			continue
		}
		mine := access.Decide(c, access.Read, o.scope(x)).Allow
		switch {
		case !x.closed && mine:
			readable = append(readable, x)
			if x.info.UID == c.UID {
				own = append(own, x)
			}
		case !x.closed:
			live = append(live, x)
		case mine || ended == nil:
			ended = x
		}
	}
	switch {
	case named != nil:
		return named, nil
	case len(own) == 1:
		return own[0], nil
	case len(readable) > 1:
		e := api.NewError(api.CodeAmbiguous, fmt.Sprintf("session %q: %d have that name", word, len(readable)), "use the id")
		for _, x := range readable {
			e.Items = append(e.Items, o.session(x, c))
		}
		return nil, e
	case len(readable) == 1:
		return readable[0], nil
	case ended != nil && access.Decide(c, access.Read, o.scope(ended)).Allow:
		return ended, nil
	case len(live) > 0:
		return live[0], nil
	case ended != nil:
		return ended, nil
	}
	return nil, api.NewError(api.CodeNotFound, fmt.Sprintf("session %q: not found", word), "lineage ls shows the sessions")
}

func (s *server) postStop(w http.ResponseWriter, _ *http.Request, c access.Caller, req *api.StopRequest) error {
	if req.Unload && s.manager.Present {
		return api.NewError(api.CodeDenied, "not permitted: a service manager runs the daemon, and would start it again",
			"systemctl stop lineage.socket lineage.service, then lineage daemon --unload")
	}
	live := 0
	if err := s.owner.do(func() { live = s.owner.live() }); err != nil {
		return err
	}
	if req.Unload && live > 0 && !req.Force {
		return api.NewError(api.CodeLiveSessions, fmt.Sprintf("%d sessions are live", live), "end them, or use --force")
	}
	s.access.Managed(c, "stop")
	err := reply(w, http.StatusAccepted, head("stop"))
	s.stop(req.Unload)
	return err
}

// maxWait bounds ?wait=.
const maxWait = time.Minute
