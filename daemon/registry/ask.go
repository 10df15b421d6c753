//go:build linux

package registry

import (
	"cmp"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Ask calls f in the registry's goroutine, as Read does, and returns its answer.
func Ask[T any](r *Registry, f func(View) T) (answer T, err error) {
	err = r.Read(func(v View) { answer = f(v) })
	return answer, err
}

// AskFor is Ask for a caller, as ReadFor is Read.
func AskFor[T any](r *Registry, c access.Caller, f func(View) T) (answer T, err error) {
	err = r.ReadFor(c, func(v View) { answer = f(v) })
	return answer, err
}

// Change calls f in the registry's goroutine, as Update does, and returns its answer and its error.
func Change[T any](r *Registry, f func(Tx) (T, error)) (answer T, err error) {
	var failed error
	err = r.Update(func(t Tx) { answer, failed = f(t) })
	return answer, cmp.Or(err, failed)
}

// Known is what is known of a session, which may be nothing yet.
func Known[T any](of map[tracer.SessionID]*T, id tracer.SessionID) *T {
	its := of[id]
	if its == nil {
		its = new(T)
		of[id] = its
	}
	return its
}
