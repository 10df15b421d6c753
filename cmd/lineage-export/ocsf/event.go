package ocsf

// event is one OCSF event, with the attributes that the classes here use. Times are
// milliseconds. The comments of fields are the table of docs/SIEM.md: in brackets the classes
// or codes of the events that have the field, unless the struct's place in the event says it.
type event struct {
	Time         int64  `json:"time"`          // (all) when it happened
	Message      string `json:"message"`       // (all) one readable line
	ClassUID     int    `json:"class_uid"`     // (all) 0, 1007, 2004, 7003
	ClassName    string `json:"class_name"`    // (all) its name
	CategoryUID  int    `json:"category_uid"`  // (all) of the class
	CategoryName string `json:"category_name"` // (all) its name
	ActivityID   int    `json:"activity_id"`   // (all) see [what is sent](#what-is-sent)
	ActivityName string `json:"activity_name"` // (all) its name
	TypeUID      int    `json:"type_uid"`      // (all) `class_uid` × 100 + `activity_id`
	TypeName     string `json:"type_name"`     // (all) its name
	SeverityID   int    `json:"severity_id"`   // (all) 1 Informational, 2 Low, 3 Medium, 4 High
	Severity     string `json:"severity"`      // (all) its name
	status
	Metadata     metadata     `json:"metadata"` // (all)
	Device       device       `json:"device"`   // (all)
	Actor        *actor       `json:"actor,omitempty"`
	Process      *process     `json:"process,omitempty"`        // (1007, 7003) the process; of `end` the root of the session
	LaunchTypeID int          `json:"launch_type_id,omitempty"` // (1007) 2 Fork, 3 Exec
	LaunchType   string       `json:"launch_type,omitempty"`    // (1007) its name
	ExitCode     *int         `json:"exit_code,omitempty"`      // (1007) absent if a signal killed the process
	CommandUID   string       `json:"command_uid,omitempty"`    // (7003) the id of the end, the same for all its processes
	Remediation  *remediation `json:"remediation,omitempty"`    // (7003)
	FindingInfo  *findingInfo `json:"finding_info,omitempty"`   // (2004)
	IsAlert      bool         `json:"is_alert,omitempty"`       // (2004) true, absent when it is closed
	Evidences    []evidence   `json:"evidences,omitempty"`      // (2004)
	Count        uint64       `json:"count,omitempty"`          // (`lost`, `leftovers`) the number of missing events; of leftovers
	StartTime    int64        `json:"start_time,omitempty"`     // (`lost`, `end`) of the gap; when the end began
	EndTime      int64        `json:"end_time,omitempty"`       // (`lost`, `end`) of the gap; when the end had its verdict
	Duration     int64        `json:"duration,omitempty"`       // (`end`) of the end, in ms
	Unmapped     unmapped     `json:"unmapped"`
}

type status struct {
	// (2004, 7003) 2004: 1 New, 4 Resolved. 7003: 1 Success, 2 Failure, 3 Does Not Exist (there was no process), 4 Partial, 0 Unknown (no
	// proof), 99 (`Kept`, `Branch`, `Released`, `Untracked`)
	StatusID     *int   `json:"status_id,omitempty"`
	Status       string `json:"status,omitempty"`        // (2004, 7003) its name
	StatusDetail string `json:"status_detail,omitempty"` // (7003) why
}

type metadata struct {
	Version        string   `json:"version"`                   // 1.8.0
	UID            string   `json:"uid"`                       // the id of the event
	CorrelationUID string   `json:"correlation_uid,omitempty"` // (all but `lost`, `degraded`, `breaker`) the id of the session
	EventCode      string   `json:"event_code"`                // see [what is sent](#what-is-sent)
	Sequence       uint64   `json:"sequence,omitempty"`        // (events of this boot) the daemon's number
	IsTruncated    bool     `json:"is_truncated,omitempty"`    // a command line, the ancestry or a list was cut
	Product        product  `json:"product"`
	Profiles       []string `json:"profiles"` // container, host
}

type product struct {
	Name       string `json:"name"`              // lineage
	VendorName string `json:"vendor_name"`       // lineage
	Version    string `json:"version,omitempty"` // of the exporter
}

type device struct {
	UID      string `json:"uid,omitempty"`      // the machine id
	Hostname string `json:"hostname,omitempty"` // the name of the host
	BootUID  string `json:"boot_uid,omitempty"` // the kernel's boot id
	TypeID   int    `json:"type_id"`            // 0
	Type     string `json:"type"`               // Unknown
	OS       system `json:"os"`
}

type system struct {
	Name          string `json:"name"`                     // Linux
	TypeID        int    `json:"type_id"`                  // 200
	Type          string `json:"type"`                     // Linux
	KernelRelease string `json:"kernel_release,omitempty"` // its release
}

type actor struct {
	// (1007, 7003) fork: the creator; exec and `setuid`: the process with its previous program and user; exit: the process itself; 7003: the
	// caller that asked for the end
	Process *process `json:"process,omitempty"`
	User    *account `json:"user,omitempty"`     // (7003) the caller that asked for the end
	AppName string   `json:"app_name,omitempty"` // (1007, 7003) the name of the session; `lineage` if no caller asked for the end
	AppUID  string   `json:"app_uid,omitempty"`  // (1007) as `metadata.correlation_uid`
}

// entity identifies a process and describes it.
type entity struct {
	UID         string `json:"uid,omitempty"`          // the id of the process
	PID         int    `json:"pid,omitempty"`          // in the initial PID namespace
	Name        string `json:"name,omitempty"`         // the kernel's name, at most 15 bytes
	Path        string `json:"path,omitempty"`         // the program, as named in the exec
	CreatedTime int64  `json:"created_time,omitempty"` // when it was forked
	CmdLine     string `json:"cmd_line"`               // the arguments, joined by spaces, redacted; empty: unknown
}

type process struct {
	entity
	File           *file      `json:"file,omitempty"`            // the program, as named in the exec
	User           *account   `json:"user,omitempty"`            // the effective user
	Container      *container `json:"container,omitempty"`       // the container
	TerminatedTime int64      `json:"terminated_time,omitempty"` // when its last thread exited
	Parent         *process   `json:"parent_process,omitempty"`  // the kernel's parent
	Ancestry       []entity   `json:"ancestry,omitempty"`        // creators, the newest first: `uid`, `pid`, `name`, `path`, `cmd_line`, `created_time`
}

type file struct {
	Name   string `json:"name"`    // the last part of the path
	Path   string `json:"path"`    // as `process.path`
	TypeID int    `json:"type_id"` // 1
	Type   string `json:"type"`    // Regular File
}

type account struct {
	UID    string `json:"uid"`            // its number
	Name   string `json:"name,omitempty"` // the host's name of it
	TypeID int    `json:"type_id"`        // 2 Admin is root, 1 User
	Type   string `json:"type"`           // its name
}

type container struct {
	UID     string `json:"uid"`               // its id
	Name    string `json:"name,omitempty"`    // its name
	Runtime string `json:"runtime,omitempty"` // docker, containerd, cri-o, podman
}

type remediation struct {
	Desc string `json:"desc"` // what an end does
}

type findingInfo struct {
	UID         string   `json:"uid"`            // the id of the finding
	Title       string   `json:"title"`          // of the rule
	Desc        string   `json:"desc,omitempty"` // what was found
	Types       []string `json:"types"`          // the kind of what was found
	CreatedTime int64    `json:"created_time"`   // when it was found
	Analytic    analytic `json:"analytic"`
}

type analytic struct {
	UID    string `json:"uid"`     // the rule: `leftovers`, `budget`, …
	Name   string `json:"name"`    // the title of the rule
	TypeID int    `json:"type_id"` // 1
	Type   string `json:"type"`    // Rule
}

type evidence struct {
	Process *process `json:"process,omitempty"` // leftovers; the root of a session over its budget; the receiver of a signal. At most 32
	Actor   *actor   `json:"actor,omitempty"`   // the member that asked another daemon, or sent a signal
	Data    any      `json:"data,omitempty"`    // `outcome` of a leftover; `broker`; `call` and `tool`; `signal` and `refused`
}

// unmapped has what OCSF 1.8 has no attributes for.
type unmapped struct {
	AIAgent *aiAgent      `json:"ai_agent,omitempty"` // (sessions of an agent rule) as planned for OCSF 1.9
	Lineage lineageFields `json:"lineage"`
}

// aiAgent has the attributes of OCSF 1.9's object.
type aiAgent struct {
	UID         string `json:"uid"`          // the rule
	Name        string `json:"name"`         // the rule
	InstanceUID string `json:"instance_uid"` // the session
}

// sender is who sent a signal. A process is the actor of the event, too.
type sender struct {
	Kind    string      `json:"kind"`              // as in REFERENCE, Senders
	Signal  string      `json:"signal"`            // that was sent
	Handled bool        `json:"handled,omitempty"` // the process had a handler
	Raised  bool        `json:"raised,omitempty"`  // … and later sent the same signal to itself
	Passed  bool        `json:"passed,omitempty"`  // the session's owner got it first, and passed it on
	Process *processRef `json:"process,omitempty"` // with the name that it chose
	Session string      `json:"session,omitempty"` // of that process
}

type processRef struct {
	UID  string `json:"uid"`            // the id of the process
	PID  int    `json:"pid"`            // in the initial PID namespace
	Name string `json:"name,omitempty"` // the kernel's name
}

type session struct {
	ID        string      `json:"id"`                     // as the commands of lineage take it
	UID       string      `json:"uid"`                    // as `metadata.correlation_uid`
	Name      string      `json:"name,omitempty"`         // its name, which the commands take too
	Rule      string      `json:"rule,omitempty"`         // the agent rule of the policy
	UserUID   string      `json:"user_uid,omitempty"`     // the user that the session belongs to
	Parent    string      `json:"parent,omitempty"`       // the session around it
	Delegated string      `json:"delegated_by,omitempty"` // the session whose work it holds
	Root      *processRef `json:"root,omitempty"`         // its root
	Started   int64       `json:"started_time,omitempty"` // when it was opened
}

type trace struct {
	TraceID string `json:"trace_id"`          // the trace
	SpanID  string `json:"span_id"`           // the span
	Claimed bool   `json:"claimed,omitempty"` // the trace is from a member's `TRACEPARENT`
}

type call struct {
	ID   string `json:"id"`             // the id of the call
	Tool string `json:"tool,omitempty"` // the tool
}

// lost is a gap in the events.
type lost struct {
	Where string `json:"where"`          // see [where](REFERENCE.md#events)
	From  uint64 `json:"from,omitempty"` // the first missing number
	To    uint64 `json:"to,omitempty"`   // the last missing number
}

// condition is the daemon's condition, in a finding about the daemon.
type condition struct {
	Level    int      `json:"level"`                  // the guarantee level
	Before   int      `json:"level_before,omitempty"` // the level before, if it changed
	Mode     string   `json:"mode,omitempty"`         // observe or enforce
	Degraded []string `json:"degraded,omitempty"`     // what does not work as it should
}
