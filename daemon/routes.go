//go:build linux

package daemon

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
)

func (s *server) routes() map[string]answer {
	return map[string]answer{
		"GET /v1/version":               s.getVersion,
		"GET /v1/status":                s.getStatus,
		"GET /v1/sessions":              s.abreast(s.getSessions),
		"POST /v1/sessions":             s.postSession,
		"GET /v1/sessions/{s}":          s.abreast(s.getSession),
		"GET /v1/sessions/{s}/tree":     s.abreast(s.getTree),
		"GET /v1/sessions/{s}/report":   s.getReport,
		"POST /v1/keep":                 s.postKeep,
		"POST /v1/sessions/{s}/end":     s.postEnd,
		"POST /v1/sessions/{s}/plan":    s.abreast(s.postPlan),
		"GET /v1/processes/{ref}":       s.abreast(s.getProcess),
		"GET /v1/why":                   s.abreast(s.getWhy),
		"GET /v1/orphans":               s.abreast(s.getOrphans),
		"GET /v1/leaks":                 s.abreast(s.getLeaks),
		"GET /v1/events":                s.abreast(s.getEvents),
		"GET /v1/history":               s.getHistory,
		"GET /v1/watch":                 s.getWatch,
		"POST /v1/daemon/stop":          s.postStop,
		"POST /v1/resync":               s.postResync,
		"GET /metrics":                  s.getMetrics,
		"POST /v1/selfcheck":            s.postSelfCheck,
		"GET /v1/policy":                s.getPolicy,
		"GET /v1/policy/explain":        s.abreast(s.getExplain),
		"POST /v1/policy/reload":        s.postReload,
		"POST /v1/policy/resume":        s.postResume,
		"POST /v1/processes/{ref}/kill": s.postKill,
	}
}

func (s *server) getVersion(w http.ResponseWriter, r *http.Request, _ access.Caller) error {
	if _, err := query(r); err != nil {
		return err
	}
	f := s.kernel.Features()
	return reply(w, http.StatusOK, api.Version{
		Head: head("version"), Version: s.version, API: api.Major, ABI: f.ABI, PID: s.pid,
		Ephemeral: s.ephemeral, Level: f.Level, Mode: s.rules.mode(), Started: &s.started,
	})
}

func (s *server) getStatus(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	if _, err := query(r); err != nil {
		return err
	}
	f := s.kernel.Features()
	d := api.Status{Head: head("status"), Level: f.Level, Capabilities: s.privileges.held, Missing: f.Missing, Limits: f.Limits, Mode: s.rules.mode(), Breaker: s.rules.breakerState(),
		RefusesForks: f.Refuses.String(), SelfProtect: s.self.on, SelfCheck: s.selfCheck.result()}
	err := s.registry.read(c, func() {
		o := s.registry
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

// degradations says what does not work as it should. It is called by the registry.
func (s *server) degradations() []string {
	all := append(slices.Clone(s.kernel.Features().Degraded), s.registry.degraded...)
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
func (o *Registry) refresh(s *Session) {
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
	err = s.registry.read(c, func() {
		for _, x := range s.registry.sorted() {
			if x.closed || state == "ended" ||
				q.Get("name") != "" && x.info.Name != q.Get("name") ||
				!access.Decide(c, access.Read, s.registry.scope(x)).Allow {
				continue
			}
			s.registry.refresh(x)
			item := s.registry.session(x, c)
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
func (o *Registry) sorted() []*Session {
	all := make([]*Session, 0, len(o.sessions))
	for _, x := range o.sessions {
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b *Session) int {
		return cmp.Or(cmp.Compare(a.info.Created, b.info.Created), cmp.Compare(a.info.ID, b.info.ID))
	})
	return all
}

func (s *server) getSession(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	if _, err := query(r); err != nil {
		return err
	}
	var d api.Session
	err := s.withSession(r.PathValue("s"), c, access.Read, func(x *Session) {
		s.registry.refresh(x)
		d = s.registry.session(x, c)
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

// withSession finds a session, decides, and runs f in the registry's goroutine.
func (s *server) withSession(word string, c access.Caller, v access.Verb, f func(*Session)) error {
	var refused error
	ask := s.registry.do
	if v == access.Read {
		ask = func(f func()) error { return s.registry.read(c, f) }
	}
	err := ask(func() {
		x, err := s.registry.find(word, c)
		if err != nil {
			refused = err
			return
		}
		if d := access.Decide(c, v, s.registry.scope(x)); !d.Allow {
			refused = s.refuse(c, v, word, d)
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
func (o *Registry) find(word string, c access.Caller) (*Session, error) {
	var live, readable, own []*Session
	var ended, named *Session
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

func (s *server) postStop(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	var req api.StopRequest
	if err := s.decode(w, r, &req); err != nil {
		return err
	}
	if d := access.Decide(c, access.Manage, access.Scope{}); !d.Allow {
		return s.refuse(c, access.Manage, "daemon", d)
	}
	if req.Unload && s.manager.Present {
		return api.NewError(api.CodeDenied, "not permitted: a service manager runs the daemon, and would start it again",
			"systemctl stop lineage.socket lineage.service, then lineage daemon --unload")
	}
	live := 0
	if err := s.registry.do(func() { live = s.registry.live() }); err != nil {
		return err
	}
	if req.Unload && live > 0 && !req.Force {
		return api.NewError(api.CodeLiveSessions, fmt.Sprintf("%d sessions are live", live), "end them, or use --force")
	}
	s.managed(c, "stop")
	err := reply(w, http.StatusAccepted, head("stop"))
	s.stop(req.Unload)
	return err
}

// maxWait bounds ?wait=.
const maxWait = time.Minute
