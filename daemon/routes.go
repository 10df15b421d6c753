//go:build linux

package daemon

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
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
		Ephemeral: s.ephemeral, Level: f.Level, Mode: s.rules.Mode(), Started: &s.started,
	})
}

func (s *server) getStatus(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	if _, err := query(r); err != nil {
		return err
	}
	f := s.kernel.Features()
	d := api.Status{Head: head("status"), Level: f.Level, Capabilities: s.privileges.held, Missing: f.Missing, Limits: f.Limits, Mode: s.rules.Mode(), Breaker: s.rules.BreakerState(),
		RefusesForks: f.Refuses.String(), SelfProtect: s.self.on, SelfCheck: s.selfCheck.Result()}
	err := s.read(c, func(v registry.View) {
		d.Degraded = s.degradations(v)
		d.Lost, d.Sessions = v.Lost(), v.Live()
		for x := range v.Sessions() {
			if !x.Closed() && x.Info().Parent == 0 { // nested members count in their ancestors
				v.Refresh(x)
				d.Live += int(max(x.Info().Live, 0))
			}
		}
		if access.Decide(c, access.Metrics, access.Scope{}).Allow {
			counters, misses := v.Kernel()
			d.Counters = make(map[string]uint64, len(counters)+len(misses))
			maps.Copy(d.Counters, counters)
			for name, n := range misses {
				d.Counters["recursion_misses."+name] = n
			}
			d.Counters["readers_dropped"] = s.tally.dropped.Load()
			s.recorder.Count(v, d.Counters)
		}
	})
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, d)
}

// degradations says what does not work as it should.
func (s *server) degradations(v registry.View) []string {
	all := append(slices.Clone(s.kernel.Features().Degraded), v.Degraded()...)
	all = append(all, s.rules.Degraded()...)
	all = append(all, s.selfCheck.Degraded()...)
	all = append(all, s.exporter.Degraded()...)
	if err := s.audit.Err(); err != nil {
		all = append(all, "audit records are being lost: "+err.Error())
	}
	if err := s.self.err; err != nil {
		all = append(all, "self_protect: "+err.Error())
	}
	all = append(all, s.recorder.Degraded()...)
	if err := s.privileges.err; err != nil {
		all = append(all, "privileges were not given up: "+err.Error())
	}
	return all
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
	err = s.read(c, func(v registry.View) {
		for _, x := range v.Sorted() {
			if x.Closed() || state == "ended" ||
				q.Get("name") != "" && x.Info().Name != q.Get("name") ||
				!access.Decide(c, access.Read, v.Scope(x)).Allow {
				continue
			}
			v.Refresh(x)
			item := v.Document(x, c)
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

func (s *server) getSession(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	if _, err := query(r); err != nil {
		return err
	}
	var d api.Session
	err := s.withSession(r.PathValue("s"), c, access.Read, func(v registry.View, x *registry.Session) {
		v.Refresh(x)
		d = v.Document(x, c)
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

// read is the registry's Read for a caller. Unless root asks, all that is done goes
// first.
func (s *server) read(c access.Caller, f func(registry.View)) error {
	if c.Root() {
		return s.registry.Read(f)
	}
	return s.registry.ReadLast(f)
}

// withSession finds a session, decides, and runs f in the registry's goroutine.
func (s *server) withSession(word string, c access.Caller, verb access.Verb, f func(registry.View, *registry.Session)) error {
	var refused error
	ask := s.registry.Read
	if verb == access.Read {
		ask = func(f func(registry.View)) error { return s.read(c, f) }
	}
	err := ask(func(v registry.View) {
		x, err := v.Find(word, c)
		if err != nil {
			refused = err
			return
		}
		if d := access.Decide(c, verb, v.Scope(x)); !d.Allow {
			refused = s.refuse(c, verb, word, d)
			return
		}
		f(v, x)
	})
	if err != nil {
		return err
	}
	return refused
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
	if err := s.registry.Read(func(v registry.View) { live = v.Live() }); err != nil {
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
