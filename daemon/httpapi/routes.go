//go:build linux

package httpapi

import (
	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
)

func (s *Server) routes() map[string]route {
	o, a, b := &s.o, s.o.Access, bodies{s.o.Send}
	var (
		daemon  = (*host)(o)
		session = (*sessions)(o)
		act     = (*acting)(o)
		process = (*processes)(o)
	)
	fresh := func(rt route) route { return abreast(o.Registry, rt) }
	all := func(rt route) route { return large(a, fresh(rt)) }
	none := bodyOf[struct{}](b)
	return map[string]route{
		"GET /v1/version": onHost(a, access.Hello, "", params(), daemon.getVersion),
		"GET /v1/status":  remote(onHost(a, access.Hello, "", params(), daemon.getStatus)),
		"GET /v1/sessions": remote(all(onEach(params("state", "name"),
			session.getSessions, access.Read))),
		"POST /v1/sessions": onTarget(bodyOf[api.NewSession](b),
			act.postSession, access.Create, access.Adopt),
		"GET /v1/sessions/{s}": remote(fresh(onTarget(params(),
			session.getSession, access.Read))),
		"GET /v1/sessions/{s}/tree": remote(all(onTarget(params("dead"),
			session.getTree, access.Read))),
		"GET /v1/sessions/{s}/report":  remote(onTarget(params("wait"), act.getReport, access.Read)),
		"POST /v1/marks":               onTarget(bodyOf[api.MarkRequest](b), act.postMark, access.Mark),
		"POST /v1/keep":                onTarget(bodyOf[api.KeepRequest](b), act.postKeep, access.Keep),
		"POST /v1/sessions/{s}/end":    onTarget(bodyOf[api.EndRequest](b), act.postEnd, access.End),
		"POST /v1/sessions/{s}/pause":  pausing(o.Acts, none, access.Pause),
		"POST /v1/sessions/{s}/resume": pausing(o.Acts, none, access.Resume),
		"POST /v1/sessions/{s}/plan":   all(onTarget(none, act.postPlan, access.Read)),
		"GET /v1/processes/{ref}":      remote(all(onTarget(params(), process.getProcess, access.Read))),
		"GET /v1/why": remote(all(onEach(params("ref", "port", "proto",
			"path", "device", "inode"), process.getWhy, access.Read))),
		"GET /v1/orphans": remote(all(onEach(params("session"), process.getOrphans, access.Read))),
		"GET /v1/leaks":   remote(all(onEach(params(), process.getLeaks, access.Read))),
		"GET /v1/events": fresh(onTarget(params("session", "type", "from",
			"since", "until", "snapshot"), session.getEvents, access.Read)),
		"GET /v1/history": remote(
			large(a, onHost(a, access.Read, "history", params("since", "until", "limit", "next", "after"),
				session.getHistory)),
		),
		"GET /v1/watch": onTarget(params(), session.getWatch, access.Read),
		"POST /v1/daemon/stop": onHost(a, access.Manage, "daemon",
			bodyOf[api.StopRequest](b), daemon.postStop),
		"POST /v1/halt": large(a, onHost(a, access.Halt, "host",
			bodyOf[api.HaltRequest](b), daemon.postHalt)),
		"GET /metrics":   onHost(a, access.Metrics, "", params(), daemon.getMetrics),
		"GET /v1/policy": onHost(a, access.Read, "policy", params(), daemon.getPolicy),
		"GET /v1/policy/explain": fresh(onHost(a, access.Read, "policy",
			params("ref"), daemon.getExplain)),
		"POST /v1/policy/reload": onHost(a, access.Manage, "policy", none, daemon.postReload),
		"POST /v1/policy/resume": onHost(a, access.Manage, "policy", none, daemon.postResume),
		"POST /v1/commands": remote(onHost(a, access.Order, "",
			bodyOf[api.SignedCommand](b), act.postCommand)),
		"GET /v1/commands/{id}": remote(large(a,
			onHost(a, access.Order, "", params("wait"), act.getCommand))),
		"POST /v1/processes/{ref}/kill": onTarget(params(), act.postKill, access.Kill),
		"POST /v1/processes/{ref}/end": onTarget(bodyOf[api.EndRequest](b),
			act.postBranchEnd, access.Branch),
		"POST /v1/processes/{ref}/plan": all(onTarget(bodyOf[api.PlanRequest](b),
			act.postBranchPlan, access.Read)),
	}
}

// Routes are the verbs that each route decides about, by method and path.
func (s *Server) Routes() map[string][]access.Verb {
	all := make(map[string][]access.Verb)
	for pattern, r := range s.routes() {
		all[pattern] = r.verbs
	}
	return all
}
