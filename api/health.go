package api

// Health is GET /healthz.
type Health struct {
	Head
	Status   string   `json:"status"`             // ok, degraded
	Degraded []string `json:"degraded,omitempty"` // what does not work as it should
}

// SelfChecked is the reply to POST /v1/selfcheck.
type SelfChecked struct {
	Head
	SelfCheck
}

// Resync is the result of a comparison with the kernel's task list.
type Resync struct {
	Head
	Cause   string `json:"cause"`   // request; in the metrics also start, lost, misses, births, member
	Changes int    `json:"changes"` // of the picture, in all
	// What the picture lacked, by kind.
	Found      int `json:"found"`      // members that no event had reported
	Vanished   int `json:"vanished"`   // live in the picture, and dead
	Gone       int `json:"gone"`       // zombies in the picture, and reaped
	Moved      int `json:"moved"`      // in another session
	Reparented int `json:"reparented"` // with another parent
	// What the kernel's own bookkeeping lacked: 0 unless it skipped programs.
	Added   int       `json:"added"`
	Removed int       `json:"removed"` // entries of processes that are dead
	Lost    uint64    `json:"lost"`    // events, since the daemon began
	Items   []Finding `json:"items"`   // the differences
	// Truncated: Items names only some of the changes.
	Truncated bool `json:"truncated,omitempty"`
}

// Finding is one difference between the picture and the kernel, now repaired.
type Finding struct {
	Kind    string `json:"kind"`              // found, vanished, gone, moved, reparented
	Process Ref    `json:"process"`           // that differed
	Session string `json:"session,omitempty"` // that it belongs to
	From    *Ref   `json:"from,omitempty"`    // reparented
	To      *Ref   `json:"to,omitempty"`      // reparented
}
