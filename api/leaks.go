package api

import (
	"context"
	"net/http"
	"time"
)

// Orphans are processes that nobody is there for.
type Orphans struct {
	Head
	Items []Orphan `json:"items"`
}

// OrphanWhy is why an [Orphan] is one.
type OrphanWhy string

// The reasons why a process is an [Orphan].
const (
	WhyOrphan   OrphanWhy = "orphan"   // its creator is dead, its session's root lives
	WhyLeftover OrphanWhy = "leftover" // its session's root is gone
	WhyZombie   OrphanWhy = "zombie"   // it is dead, its parent has not waited for it
	WhyBrokered OrphanWhy = "brokered" // another daemon started it for a member, or was asked to
)

// Orphan is a live process whose creator or root is dead, or that no member
// forked; or a zombie. Of work that was asked for and of which nothing was found
// it is who asked.
type Orphan struct {
	Process
	Why         OrphanWhy `json:"why"`
	SessionName string    `json:"session_name,omitempty"`
	Kept        bool      `json:"kept,omitempty"` // somebody wants it to outlive its session
	// Brokered is how it came to its session, if not by a fork.
	Brokered *Brokered `json:"brokered,omitempty"`
	// Reaper has to wait for a zombie. Absent: not known.
	Reaper *Process `json:"reaper,omitempty"`
}

// Leaks is what sessions hold and how it grows.
type Leaks struct {
	Head
	Host  *Leak  `json:"host,omitempty"` // all processes of the host, for who may read everything
	Items []Leak `json:"items"`          // by session
	// KeepUnmatched are the names of the keep rules that have matched nothing
	// since the daemon began or they were read.
	KeepUnmatched []string `json:"keep_unmatched,omitempty"`
	// Truncated: there were more commands than are kept apart.
	Truncated bool `json:"truncated,omitempty"`
}

// Leak is one session, or the host. RSS counts memory that several processes
// share in each of them.
type Leak struct {
	Head
	Session   string       `json:"session,omitempty"`
	Name      string       `json:"name,omitempty"`
	State     SessionState `json:"state,omitempty"`
	Started   *time.Time   `json:"started,omitempty"`
	Kept      bool         `json:"kept,omitempty"` // as of the session, with those behind it
	Until     *time.Time   `json:"until,omitempty"`
	Reason    string       `json:"reason,omitempty"`
	KeptBy    *Caller      `json:"kept_by,omitempty"`
	KeepRule  string       `json:"keep_rule,omitempty"`
	Processes int          `json:"processes"` // that hold a PID: live and zombies
	Leftovers int          `json:"leftovers"`
	Orphans   int          `json:"orphans"`
	Zombies   int          `json:"zombies"`
	RSSBytes  uint64       `json:"rss_bytes"`
	Growth    Growth       `json:"growth"`
	// HoursToExhaustion is when the nearest limit is reached if it grows on like
	// that; absent: it does not grow, not within ten years, or nobody can tell.
	HoursToExhaustion *float64      `json:"hours_to_exhaustion,omitempty"`
	Exhausts          string        `json:"exhausts,omitempty"` // memory, pids, max_rss, max_processes
	Commands          []LeakCommand `json:"commands,omitempty"` // most memory first
	Ports             []Port        `json:"ports,omitempty"`
	Locks             []Lock        `json:"locks,omitempty"`
}

// LeakCommand is the processes of one comm.
type LeakCommand struct {
	Comm      string `json:"comm"`
	Processes int    `json:"processes"`
	RSSBytes  uint64 `json:"rss_bytes"`
	Growth    Growth `json:"growth"`
}

// Growth is what was gained in an hour, lately. Known tells whether there is
// enough data; the figures are absent if there is not.
type Growth struct {
	Known            bool     `json:"known"`
	Why              string   `json:"why,omitempty"` // not known
	OverSeconds      float64  `json:"over_seconds"`  // that it was watched
	ProcessesPerHour *float64 `json:"processes_per_hour,omitempty"`
	BytesPerHour     *float64 `json:"bytes_per_hour,omitempty"`
}

func (c *client) Orphans(ctx context.Context, session string) (*Orphans, error) {
	return fetch[Orphans](c, ctx, http.MethodGet, "/v1/orphans", values("session", session), nil)
}

func (c *client) Leaks(ctx context.Context, session string) (*Leaks, error) {
	return fetch[Leaks](c, ctx, http.MethodGet, "/v1/leaks", values("session", session), nil)
}
