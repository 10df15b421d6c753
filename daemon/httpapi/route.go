//go:build linux

package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

// answer handles one request of a caller; an error is its reply.
type answer func(w http.ResponseWriter, r *http.Request, c access.Caller) error

type reader[T any] func(w http.ResponseWriter, r *http.Request) (T, error)

// handler is an answer to what was read.
type handler[T any] func(w http.ResponseWriter, r *http.Request, c access.Caller, req T) error

func reading[T any](read reader[T], f handler[T]) answer {
	return func(w http.ResponseWriter, r *http.Request, c access.Caller) error {
		req, err := read(w, r)
		if err != nil {
			return err
		}
		return f(w, r, c, req)
	}
}

// route is one route of the API: its verbs, and its answer. It is made by onHost,
// onTarget or onEach, which differ in where the decision about the caller is made.
type route struct {
	verbs  []access.Verb
	answer answer
	remote bool // a link may pass its requests on
}

// remote marks a route that changes nothing, or only what a signature allows, and that ends: links pass on its
// requests from other hosts.
func remote(rt route) route {
	rt.remote = true
	return rt
}

// here refuses what a link passes on.
func here(a answer) answer {
	return func(w http.ResponseWriter, r *http.Request, c access.Caller) error {
		if r.Header.Get(api.HeaderRemote) != "" {
			return api.Errorf(api.CodeDenied, "%s %s is not for other hosts", r.Method, r.URL.Path)
		}
		return a(w, r, c)
	}
}

// onHost is a route about the daemon, or about no session in particular. Only permitted
// callers reach its answer; errors that read finds in a request are sent before that.
// what names the target in a refusal.
func onHost[T any](a *access.Access, v access.Verb, what string, read reader[T], f handler[T]) route {
	return route{verbs: []access.Verb{v}, answer: reading(read, func(w http.ResponseWriter,
		r *http.Request, c access.Caller, req T) error {
		if d := access.Decide(c, v, access.Scope{UID: c.UID}); !d.Allow {
			return a.Refuse(c, v, what, d)
		}
		return f(w, r, c, req)
	})}
}

// onTarget is a route about one session or process. Its answer finds it and decides
// about one of the verbs; a reply without a decision is not sent.
func onTarget[T any](read reader[T], f handler[T], verbs ...access.Verb) route {
	a := reading(read, f)
	return route{verbs: verbs, answer: func(w http.ResponseWriter,
		r *http.Request, c access.Caller) error {
		c, asked := c.Noting()
		return a(&deciding{ResponseWriter: w, verbs: verbs, asked: asked}, r, c)
	}}
}

// onEach is a route about everything to which the caller may do v. Its answer decides
// about each item, and so about nothing if there is none.
func onEach[T any](read reader[T], f handler[T], v access.Verb) route {
	return route{verbs: []access.Verb{v}, answer: reading(read, f)}
}

// deciding panics instead of sending a reply without a decision: the caller gets an internal
// error. It cannot detect an answer that ignores a decision. Errors are sent past it.
type deciding struct {
	http.ResponseWriter
	verbs []access.Verb
	asked *access.Asked
}

// Unwrap is for [http.ResponseController].
func (d *deciding) Unwrap() http.ResponseWriter { return d.ResponseWriter }

func (d *deciding) WriteHeader(status int) {
	d.check()
	d.ResponseWriter.WriteHeader(status)
}

func (d *deciding) Write(b []byte) (int, error) {
	d.check()
	return d.ResponseWriter.Write(b)
}

func (d *deciding) check() {
	if !slices.ContainsFunc(d.verbs, d.asked.About) {
		panic(fmt.Sprintf("nothing has decided whether the caller may %v", d.verbs))
	}
}

// params reads the parameters of a request that has no body.
func params(known ...string) reader[url.Values] {
	return func(_ http.ResponseWriter, r *http.Request) (url.Values, error) {
		return query(r, known...)
	}
}

func bodyOf[T any](b bodies) reader[*T] {
	return func(w http.ResponseWriter, r *http.Request) (*T, error) {
		req := new(T)
		return req, b.decode(w, r, req)
	}
}

// abreastWait is how long a request waits for the reader of the events. A reader that
// is further behind is in a storm, and the answer is what is known.
const abreastWait = 100 * time.Millisecond

// abreast answers after every event that the kernel had sent when the request came: a
// process that the caller has just started is in the answer.
func abreast(o *registry.Registry, rt route) route {
	return route{verbs: rt.verbs, answer: func(w http.ResponseWriter,
		r *http.Request, c access.Caller) error {
		ctx, cancel := context.WithTimeout(r.Context(), abreastWait)
		o.CatchUp(ctx)
		cancel()
		return rt.answer(w, r, c)
	}}
}

// large is a route whose reply may have any size, so that a caller gets few at once.
func large(a *access.Access, rt route) route {
	return route{verbs: rt.verbs, answer: inTurn(a, rt.answer)}
}

func inTurn(a *access.Access, f answer) answer {
	return func(w http.ResponseWriter, r *http.Request, c access.Caller) error {
		done, err := a.Turn(r.Context(), c)
		if err != nil {
			return err
		}
		defer done()
		return f(w, r, c)
	}
}
