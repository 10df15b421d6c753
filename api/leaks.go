package api

import (
	"context"
	"net/http"
	"time"
)

// Orphans are orphans, leftovers, zombies and brokered work.
type Orphans struct {
	Head
	Items []Orphan `json:"items"` // the processes
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
// forked; or a zombie. If brokered work was asked for and no process was found, it
// is the member that asked.
type Orphan struct {
	Process
	Why         OrphanWhy `json:"why"`                    // orphan, leftover, zombie, brokered
	SessionName string    `json:"session_name,omitempty"` // of its session
	Kept        bool      `json:"kept,omitempty"`         // it is meant to outlive its session
	// Brokered is how it came to its session, if not by a fork.
	Brokered *Brokered `json:"brokered,omitempty"`
	// Reaper is the process that must wait for a zombie. Absent: not known.
	Reaper *Process `json:"reaper,omitempty"`
}

// Leaks is what sessions hold, and how it grows.
type Leaks struct {
	Head
	Host  *Leak  `json:"host,omitempty"` // all processes of the host, if the caller may read everything
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
	Session   string       `json:"session,omitempty"`   // id; absent for the host
	Name      string       `json:"name,omitempty"`      // of the session
	State     SessionState `json:"state,omitempty"`     // of the session
	Started   *time.Time   `json:"started,omitempty"`   // when the session was opened
	Kept      bool         `json:"kept,omitempty"`      // as of the session, with those behind it
	Until     *time.Time   `json:"until,omitempty"`     // of a kept session
	Reason    string       `json:"reason,omitempty"`    // of a kept session
	KeptBy    *Caller      `json:"kept_by,omitempty"`   // of a kept session
	KeepRule  string       `json:"keep_rule,omitempty"` // of a kept session
	Processes int          `json:"processes"`           // that hold a PID: live and zombies; without nested sessions
	Leftovers int          `json:"leftovers"`           // live members while the root is gone
	Orphans   int          `json:"orphans"`             // live members whose creator is dead
	Zombies   int          `json:"zombies"`             // dead members that their parent has not waited for
	RSSBytes  uint64       `json:"rss_bytes"`           // without nested sessions; shared memory counts in each process
	Growth    Growth       `json:"growth"`              // in an hour
	// HoursToExhaustion is when the nearest limit is reached at this growth; absent:
	// it does not grow, not within 30 days, or there is not enough data.
	HoursToExhaustion *float64      `json:"hours_to_exhaustion,omitempty"`
	Exhausts          string        `json:"exhausts,omitempty"` // memory, pids, max_rss, max_processes
	Commands          []LeakCommand `json:"commands,omitempty"` // most memory first
	Ports             []Port        `json:"ports,omitempty"`    // that its processes listen on
	Locks             []Lock        `json:"locks,omitempty"`    // that its processes hold
}

// LeakCommand is the processes of one comm.
type LeakCommand struct {
	Comm      string `json:"comm"`      // the kernel's name
	Processes int    `json:"processes"` // of that name
	RSSBytes  uint64 `json:"rss_bytes"` // of all of them
	Growth    Growth `json:"growth"`    // in an hour
}

// Growth is the recent growth per hour. The figures are absent if there is not
// enough data.
type Growth struct {
	Known            bool     `json:"known"`                        // there is enough data
	Why              string   `json:"why,omitempty"`                // not known
	OverSeconds      float64  `json:"over_seconds"`                 // that it was watched
	ProcessesPerHour *float64 `json:"processes_per_hour,omitempty"` // gained, or lost if negative
	BytesPerHour     *float64 `json:"bytes_per_hour,omitempty"`     // of memory, gained, or lost if negative
}

func (c *client) Orphans(ctx context.Context, session string) (*Orphans, error) {
	return fetch[Orphans](c, ctx, http.MethodGet, "/v1/orphans", values("session", session), nil)
}

func (c *client) Leaks(ctx context.Context, session string) (*Leaks, error) {
	return fetch[Leaks](c, ctx, http.MethodGet, "/v1/leaks", values("session", session), nil)
}
