//go:build linux

package attribution

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
)

const (
	maxEnviron = 256 << 10
	maxJob     = 256 << 10 // of the script that at(1) makes
)

// candidate is an outsider, or a member on weak evidence, with what procfs shows of it.
type candidate struct {
	tracer.Process
	marks lookup.BrokerMarks
	place lookup.BrokerPlace
	// container that it is in; nil: none.
	container *lineage.Container
	// terminal: it was started in a terminal, outside of sessions.
	terminal bool
	server   string // the name of its parent's file
	runs     string // the name of its own
}

// claimant is a session that an outsider may work for: a copy, owned by the goroutine
// that judges.
type claimant struct {
	brokered
	info    tracer.SessionInfo
	word    lookup.Sum // of its id, which is not secret
	over    bool
	cookies map[lookup.Cookie]bool
}

// proof is why an outsider works for a session.
type proof struct {
	claimant *claimant
	source   tracer.Source
	asked    *request // the claimant's; nil: no request was seen
}

// client is the process that asked for the work, zero if no request was seen.
func (p *proof) client() (id tracer.Identity) {
	if p.asked != nil {
		id = p.asked.Client
	}
	return id
}

// read reads a candidate from procfs; false if it is gone or cannot be read.
func (a *Attribution) read(t *tracer.Process) (x candidate, ok bool) {
	x.Process = *t
	// Read the program before its environment: the process may be in its exec.
	x.runs = procfs.Base(a.o.Proc.Link(t.PID, "exe"))
	// Without CAP_SYS_PTRACE the environments of others cannot be read.
	if environ, err := a.o.Proc.Read(t.PID, "environ", maxEnviron); err == nil {
		if len(environ) == 0 {
			if stat, err := a.o.Proc.Stat(t.PID); err != nil || !stat.Loaded {
				return x, false // the next look shows it
			}
		}
		x.marks = lookup.BrokerMarksOf(environ)
		clear(environ)
	}
	cgroup, err := a.o.Proc.Read(t.PID, "cgroup", procfs.MaxFile)
	if err != nil {
		return x, false
	}
	x.place = lookup.BrokerPlaceOf(string(cgroup))
	if id, _ := lookup.ContainerIDOf(string(cgroup)); id != "" {
		x.container = a.o.Containers.Of(t.PID, nil)
	}
	// The parent that the walk met may be gone: runc leaves its child to the shim.
	stat, err := a.o.Proc.Stat(t.PID)
	if err == nil && stat.Parent != t.Parent.PID {
		x.Parent = tracer.Identity{PID: stat.Parent}
	}
	x.terminal = x.marks.Token != (lookup.Sum{}) && inTerminal(a.o.Proc, &x, &stat)
	if x.Parent.PID != 0 { // 1 too: the host's systemd
		x.server = procfs.Base(a.o.Proc.Link(x.Parent.PID, "exe"))
	}
	if x.server == "atd" && x.marks.Token == (lookup.Sum{}) && a.o.Proc.OfHost(x.Parent.PID, a.o.Self.PID) {
		x.marks.Token = a.job(t)
	}
	now, err := a.o.Kernel.Identify(t.PID)
	return x, err == nil && now == t.Identity
}

// job reads the token from the script that atd gives to the shell as its standard
// input: at(1) stores the environment there, and the shell's own is atd's.
func (a *Attribution) job(t *tracer.Process) (token lookup.Sum) {
	// Any process below a file that is called atd may have any file there, and one of a dead file server.
	token, _ = procfs.Bounded(a.o.Proc.Key(t.PID), func() (token lookup.Sum, err error) {
		// Opened by its link the file has an offset of its own.
		f, err := procfs.OpenRegular(a.o.Proc.Path(t.PID, "fd/0"), 0, func(st *unix.Stat_t) error {
			if st.Uid != t.UID {
				return errNotTheirs
			}
			return nil
		})
		if err != nil {
			return token, err
		}
		defer f.Close()
		script, err := io.ReadAll(io.LimitReader(f, maxJob))
		if err != nil {
			return token, err
		}
		return lookup.JobToken(script), nil
	})
	return token
}

var errNotTheirs = errors.New("the file belongs to another user")

// prove finds the session that a candidate works for, by the best evidence that the
// policy accepts. Evidence is strong only if the member could have ended the process
// itself: then forging it gains nothing.
func (a *Attribution) prove(x *candidate, all []claimant, takes []string) *proof {
	allowed := func(s tracer.Source) bool {
		word := s.String()
		if s == tracer.SourcePGRP || s == tracer.SourceCgroup {
			word = tracer.SourceSID.String()
		}
		return slices.Contains(takes, word)
	}
	for _, find := range []func(*candidate, []claimant) *proof{a.byToken, a.byUnit, a.byContainer, a.bySocket, a.byCookie} {
		if p := find(x, all); p != nil && allowed(p.source) {
			return p
		}
	}
	return a.byGroup(x, all, allowed)
}

func (a *Attribution) byToken(x *candidate, all []claimant) *proof {
	if x.marks.Token == (lookup.Sum{}) {
		return nil
	}
	for i := range all {
		c := &all[i]
		if c.token != x.marks.Token || c.token == (lookup.Sum{}) || !had(a, c, x.UID) {
			continue
		}
		inTerminal := func(job attributed) bool { return job.Terminal && job.Process == x.Identity }
		if x.terminal || slices.ContainsFunc(c.Found, inTerminal) {
			return &proof{claimant: c, source: tracer.SourceCookie}
		}
		p := &proof{claimant: c, source: tracer.SourceEnv}
		for _, e := range c.Requests { // of those that match, the first for which no process was found
			// A process that has left its shell has no sshd above it any longer.
			served := slices.Contains(e.Kind.Servers, x.server) || e.Kind.Name == "sshd" && x.marks.LocalSSH
			if !served || !e.Kind.Later && !e.within(x.Start, true) {
				continue
			}
			if p.asked = e; !e.Found {
				break
			}
		}
		return p
	}
	return nil
}

// byRequest accepts the first request of a live session that matches.
func byRequest(all []claimant, source tracer.Source, matches func(*request) bool) *proof {
	for i := range all {
		c := &all[i]
		for _, e := range c.Requests {
			if !c.over && matches(e) {
				return &proof{c, source, e}
			}
		}
	}
	return nil
}

func (a *Attribution) byUnit(x *candidate, all []claimant) *proof {
	return byRequest(all, tracer.SourceUnit, func(e *request) bool {
		if e.Unit == "" || e.Unit != x.place.Unit || x.Start < e.Asked {
			return false
		}
		// The host's own units are for root to end, a user's for that user.
		if x.place.User < 0 && e.UID != 0 || x.place.User >= 0 && x.place.User != int(e.UID) {
			return false
		}
		// A timer, a path or Restart= may have begun the process much later.
		made, ok := a.made(x.place)
		return ok && e.within(made, true)
	})
}

func (a *Attribution) byContainer(x *candidate, all []claimant) *proof {
	return byRequest(all, tracer.SourceContainer, func(e *request) bool {
		if x.container == nil || !e.NewContainer || e.Container == "" || e.UID != 0 ||
			!slices.Contains(e.Kind.Servers, x.server) ||
			!e.within(x.Start, true) {
			return false
		}
		return x.container.Name == e.Container && uint64(x.container.Created.Sub(a.o.Clock.Zero())) >= e.Asked
	})
}

// bySocket accepts what a broker forked soon after a member asked it. That the request
// was for this process is likely, but not certain. Of several matching requests it
// takes the first for which nothing was found yet: brokers serve in order.
func (a *Attribution) bySocket(x *candidate, all []claimant) (p *proof) {
	var best *request
	for i := range all {
		c := &all[i]
		if c.over {
			continue
		}
		for _, e := range c.Requests {
			later := best != nil && (e.Found && !best.Found || e.Found == best.Found && e.Asked >= best.Asked)
			if !later && a.serves(x, e) {
				p, best = &proof{c, tracer.SourceSocket, e}, e
			}
		}
	}
	return p
}

func (a *Attribution) serves(x *candidate, e *request) bool {
	if e.Kind.Later || e.Inside || !slices.Contains(e.Kind.Servers, x.server) || !e.within(x.Start, false) {
		return false
	}
	if x.runs == x.server && a.same(x) || slices.Contains(e.Kind.Before, x.runs) {
		return false // it has not yet execed the work's own program
	}
	if argv, _ := lookup.ArgvOf(a.o.Proc, x.Parent.PID); e.Elsewhere(x.server, argv) {
		return false
	}
	switch e.Kind.Name {
	case "docker":
		return x.container != nil && (e.Container == "" || x.container.Name == "" || x.container.Name == e.Container)
	case "systemd":
		made, ok := a.made(x.place)
		return e.Unit == "" && (x.place.User < 0 || x.place.User == int(e.UID)) &&
			strings.HasPrefix(x.place.Unit, "run-") && ok && made >= e.Asked
	case "sshd":
		return x.UID == e.UID && x.marks.LocalSSH
	}
	return x.UID == e.UID
}

// same reports whether a candidate executes the file that its parent executes. Its link alone
// is the candidate's to choose.
func (a *Attribution) same(x *candidate) bool {
	r, err := a.o.Kernel.Runs(x.Identity, a.o.Proc.Path(x.Parent.PID, "exe"))
	return err == nil && r.File && !r.Inside
}

// byCookie accepts a process with a variable that members of one session have, and no
// process around it, or that names the session. The name is not secret; it is false
// beside a secret that is not the session's.
func (a *Attribution) byCookie(x *candidate, all []claimant) (p *proof) {
	for i := range all {
		c := &all[i]
		if x.marks.Session == c.word && x.marks.Token == (lookup.Sum{}) && !c.over && had(a, c, x.UID) {
			return &proof{claimant: c, source: tracer.SourceCookie}
		}
	}
	for i := range all {
		c := &all[i]
		if c.over || !slices.ContainsFunc(x.marks.Cookies,
			func(k lookup.Cookie) bool { return c.cookies[k] }) ||
			!had(a, c, x.UID) {
			continue
		}
		if p != nil {
			return nil // two sessions have it: not evidence
		}
		p = &proof{claimant: c, source: tracer.SourceCookie}
	}
	return p
}

// cookieSet holds the variables by which one session's members can be known.
type cookieSet struct {
	outside map[lookup.Cookie]bool // that the processes around it have too
	inside  map[lookup.Cookie]bool
}

const maxCookies = 16 // of one session

func (a *Attribution) readCookies(t *tracer.Process, info *tracer.SessionInfo) {
	j := a.cookieSets[info.ID]
	if j == nil {
		j = &cookieSet{outside: make(map[lookup.Cookie]bool), inside: make(map[lookup.Cookie]bool)}
		a.cookieSets[info.ID] = j
		for _, id := range []tracer.Identity{a.o.Self, info.Owner, info.Root} {
			for _, c := range a.cookies(id) {
				j.outside[c] = true
			}
		}
	}
	for _, c := range a.cookies(t.Identity) {
		switch {
		case t.Identity == info.Root:
			j.outside[c] = true
			delete(j.inside, c)
		case !j.outside[c] && len(j.inside) < maxCookies:
			j.inside[c] = true
		}
	}
}

func (a *Attribution) cookies(id tracer.Identity) []lookup.Cookie {
	if id.PID == 0 {
		return nil
	}
	environ, err := a.o.Proc.Read(id.PID, "environ", maxEnviron)
	if err != nil {
		return nil
	}
	m := lookup.BrokerMarksOf(environ)
	clear(environ)
	if now, err := a.o.Kernel.Identify(id.PID); err != nil || now != id {
		return nil
	}
	return m.Cookies
}

// made returns when a unit was made on request, by systemd-run or over D-Bus: systemd
// writes its description then, and not again when it starts the unit later or anew. It
// is false if it was not. The unit's name is that of a cgroup, so it has no slash.
func (a *Attribution) made(p lookup.BrokerPlace) (boottime uint64, ok bool) {
	dir, uid := "/run/systemd/transient", uint32(0)
	if p.User >= 0 {
		dir, uid = fmt.Sprintf("/run/user/%d/systemd/transient", p.User), uint32(p.User)
	}
	// The user may have mounted a dead file server there.
	dir = filepath.Join(a.o.Files, dir)
	st, err := procfs.Bounded(procfs.UserKey(dir, uid),
		func() (os.FileInfo, error) { return os.Lstat(filepath.Join(dir, p.Unit)) })
	if err != nil {
		return 0, false
	}
	// The file's time is that of the last clock tick.
	return uint64(max(0, st.ModTime().Add(20*time.Millisecond).Sub(a.o.Clock.Zero()))), true
}
