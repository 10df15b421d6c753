//go:build linux

package lookup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

type Options struct {
	registry.Ground
	Access     *access.Access
	Containers *ContainerFinder // finds the containers of processes
}

// Finder finds sessions and processes for callers. It may be used from any goroutine.
type Finder struct {
	o       Options
	reading chan struct{} // taken while a request reads all of procfs
}

func New(o Options) *Finder { return &Finder{o: o, reading: make(chan struct{}, readers)} }

// Session finds a session, decides, and runs use in the registry's goroutine. One that c may not read is not found.
func (f *Finder) Session(word string, c access.Caller, verb access.Verb,
	use func(registry.View, *registry.Session)) error {
	if c.Lost { // for every word, or it could find out which exist
		return f.o.Access.Refuse(c, verb, word, access.Decide(c, verb, access.Scope{}))
	}
	var refused error
	ask := f.o.Registry.Read
	if verb == access.Read {
		ask = func(use func(registry.View)) error { return f.o.Registry.ReadFor(c, use) }
	}
	err := ask(func(v registry.View) {
		x, err := find(v, word, c)
		if x == nil {
			refused = err
			return
		}
		switch d := access.Decide(c, verb, v.Scope(x)); {
		case d.Allow:
			use(v, x)
		case err != nil:
			refused = f.o.Access.Hide(c, verb, word, d, err)
		default:
			refused = f.o.Access.Refuse(c, verb, word, d)
		}
	})
	if err != nil {
		return err
	}
	return refused
}

// Ask is Session with an answer.
func Ask[T any](f *Finder, word string, c access.Caller, verb access.Verb,
	use func(registry.View, *registry.Session) T) (answer T, err error) {
	err = f.Session(word, c, verb, func(v registry.View, x *registry.Session) { answer = use(v, x) })
	return answer, err
}

func (f *Finder) Receipt(word string, c access.Caller, verb access.Verb) (*api.Report, error) {
	return Ask(f, word, c, verb, func(v registry.View, x *registry.Session) *api.Report {
		v.Refresh(x)
		return v.Report(x, c)
	})
}

// Await waits until a session has a verdict, until ctx is done or stopping is closed.
func (f *Finder) Await(ctx context.Context, word string, c access.Caller, stopping <-chan struct{}) error {
	over, err := Ask(f, word, c, access.Read,
		func(_ registry.View, x *registry.Session) <-chan struct{} { return x.Over() })
	if err != nil {
		return err
	}
	select {
	case <-over:
	case <-stopping:
	case <-ctx.Done():
	}
	return nil
}

// DecideChain decides about a session and every session around it.
func (f *Finder) DecideChain(c access.Caller, v access.Verb, id tracer.SessionID) access.Decision {
	for range registry.MaxDepth {
		info, err := f.o.Kernel.Session(id)
		if errors.Is(err, tracer.ErrNotFound) {
			break // the previous one was the outermost
		}
		if err != nil {
			return access.Decision{Why: err.Error()}
		}
		if d := access.Decide(c, v, access.Scope{UID: info.UID, Name: info.Name}); !d.Allow {
			d.Why = "a session around it: " + d.Why // its id may not be c's to know
			return d
		}
		id = info.Parent
	}
	return access.Decision{Allow: true}
}

// find finds a session that the caller may read, by id, else by name: live ones first, then the newest
// ended one. Among several live ones the caller's own uid is preferred: other users cannot make a name
// ambiguous for root. With the error there may be one that the caller may not read.
func find(v registry.View, word string, c access.Caller) (*registry.Session, error) {
	var readable, mine []*registry.Session
	var named, ended, hidden *registry.Session
	for _, x := range v.Sorted() {
		id := x.ID().String() == word
		switch {
		case !id && (x.Info().Name != word || word == ""):
		case !access.Decide(c, access.Read, v.Scope(x)).Allow:
			hidden = x
		case id && (named == nil || named.Closed()):
			named = x // an agent's session may have the id of an ended one
		case x.Closed():
			ended = x
		default:
			readable = append(readable, x)
			if x.Info().UID == c.UID {
				mine = append(mine, x)
			}
		}
	}
	switch {
	case named != nil:
		return named, nil
	case len(mine) == 1:
		return mine[0], nil
	case len(readable) > 1:
		e := api.NewError(api.CodeAmbiguous, fmt.Sprintf("session %q: %d sessions have that name",
			word, len(readable)), "use the id")
		for _, x := range readable {
			e.Items = append(e.Items, v.Document(x, c))
		}
		return nil, e
	case len(readable) == 1:
		return readable[0], nil
	case ended != nil:
		return ended, nil
	}
	return hidden, api.NewError(api.CodeNotFound, fmt.Sprintf("session %q not found", word),
		`"lineage ls -a" lists those that you may see`)
}

// readers is how many requests may read the whole of procfs at once.
const readers = 2

// collectTime bounds the reading of ports, locks and files for one request, and the
// wait for its turn.
const collectTime = 3 * time.Second

// Collect waits for its turn to read much of procfs, under the context that it returns;
// done ends the turn.
func (f *Finder) Collect(ctx context.Context) (limited context.Context, done func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, collectTime)
	defer cancel()
	select {
	case f.reading <- struct{}{}:
	case <-waiting.Done():
		return nil, nil, api.NewError(api.CodeTooMany,
			"too many requests about ports, locks and files", "try again")
	}
	limited, cancel = context.WithTimeout(ctx, collectTime)
	return limited, func() { cancel(); <-f.reading }, nil
}

// IsForgotten reports whether err means that memory has no such process, or another one
// with its PID; the history may have it.
func IsForgotten(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && (e.Code == api.CodeNotFound || e.Code == api.CodeIdentity)
}

// Foreign is the error for a caller whose PIDs mean nothing here.
func Foreign(c access.Caller) error {
	if c.Unplaced != nil {
		return api.NewError(api.CodePIDNamespace,
			fmt.Sprintf("the PID namespace of the caller cannot be read: %v", c.Unplaced),
			"the daemon needs the procfs of the initial PID namespace at /proc")
	}
	return api.NewError(api.CodePIDNamespace, "the caller is in another PID namespace: its PIDs are not valid here",
		"run it on the host, or in a container with --pid=host")
}

func OtherProcess(ref api.Ref) error {
	return api.Errorf(api.CodeIdentity, "pid %d is not the process you named (%v)", ref.PID, ref)
}
