//go:build linux

package daemon

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
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
		"POST /v1/processes/{ref}/end":  onTarget(s.postBranchEnd, access.Branch),
		"POST /v1/processes/{ref}/plan": s.abreast(onTarget(s.postBranchPlan, access.Read)),
	}
}

func (s *server) getVersion(w http.ResponseWriter, _ *http.Request, _ access.Caller, _ url.Values) error {
	f := s.kernel.Features()
	return reply(w, http.StatusOK, api.Version{
		Head: api.NewHead("version"), Version: s.version, API: api.Major, ABI: f.ABI, PID: s.pid,
		Ephemeral: s.ephemeral, Level: f.Level, Mode: s.rules.Mode(), Started: &s.started,
	})
}

func (s *server) getStatus(w http.ResponseWriter, _ *http.Request, c access.Caller, _ url.Values) error {
	f := s.kernel.Features()
	d := api.Status{Head: api.NewHead("status"), Level: f.Level, Capabilities: s.privileges.held, Missing: f.Missing, Limits: f.Limits, Mode: s.rules.Mode(), Breaker: s.rules.BreakerState(),
		RefusesForks: f.Refuses.String(), SelfProtect: s.self.on, SelfCheck: s.selfCheck.Result()}
	err := s.registry.ReadFor(c, func(v registry.View) {
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
			d.Counters["readers_dropped"] = s.lines.Tally.Dropped.Load()
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
	d := api.Sessions{Head: api.NewHead("sessions"), Items: []api.Session{}}
	err = s.registry.ReadFor(c, func(v registry.View) {
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
		err = s.archive.AddEnded(r.Context(), &d, q.Get("name"), c)
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
	err := s.find.Session(r.PathValue("s"), c, access.Read, func(v registry.View, x *registry.Session) {
		v.Refresh(x)
		d = v.Document(x, c)
		d.Head = api.NewHead("session")
	})
	if lookup.IsNotFound(err) {
		p, err := s.archive.Find(r.Context(), r.PathValue("s"), c, access.Read, err)
		if err != nil {
			return err
		}
		return reply(w, http.StatusOK, p.Document())
	}
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, d)
}

func (s *server) postStop(w http.ResponseWriter, _ *http.Request, c access.Caller, req *api.StopRequest) error {
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
	s.access.Managed(c, "stop")
	err := reply(w, http.StatusAccepted, api.NewHead("stop"))
	s.stop(req.Unload)
	return err
}

// maxWait bounds ?wait=.
const maxWait = time.Minute
