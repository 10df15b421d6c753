package ocsf

// event is one OCSF event, with the attributes that the classes here use. Times are
// milliseconds.
type event struct {
	Time         int64  `json:"time"`
	Message      string `json:"message"`
	ClassUID     int    `json:"class_uid"`
	ClassName    string `json:"class_name"`
	CategoryUID  int    `json:"category_uid"`
	CategoryName string `json:"category_name"`
	ActivityID   int    `json:"activity_id"`
	ActivityName string `json:"activity_name"`
	TypeUID      int    `json:"type_uid"`
	TypeName     string `json:"type_name"`
	SeverityID   int    `json:"severity_id"`
	Severity     string `json:"severity"`
	status
	Metadata     metadata     `json:"metadata"`
	Device       device       `json:"device"`
	Actor        *actor       `json:"actor,omitempty"`
	Process      *process     `json:"process,omitempty"`
	LaunchTypeID int          `json:"launch_type_id,omitempty"`
	LaunchType   string       `json:"launch_type,omitempty"`
	ExitCode     *int         `json:"exit_code,omitempty"`
	CommandUID   string       `json:"command_uid,omitempty"` // of a remediation
	Remediation  *remediation `json:"remediation,omitempty"`
	FindingInfo  *findingInfo `json:"finding_info,omitempty"` // of a finding
	IsAlert      bool         `json:"is_alert,omitempty"`
	Evidences    []evidence   `json:"evidences,omitempty"`
	Count        uint64       `json:"count,omitempty"`
	StartTime    int64        `json:"start_time,omitempty"`
	EndTime      int64        `json:"end_time,omitempty"`
	Duration     int64        `json:"duration,omitempty"`
	Unmapped     unmapped     `json:"unmapped"`
}

type status struct {
	StatusID     *int   `json:"status_id,omitempty"`
	Status       string `json:"status,omitempty"`
	StatusDetail string `json:"status_detail,omitempty"`
}

type metadata struct {
	Version        string   `json:"version"`
	UID            string   `json:"uid"`
	CorrelationUID string   `json:"correlation_uid,omitempty"`
	EventCode      string   `json:"event_code"`
	Sequence       uint64   `json:"sequence,omitempty"`
	IsTruncated    bool     `json:"is_truncated,omitempty"`
	Product        product  `json:"product"`
	Profiles       []string `json:"profiles"`
}

type product struct {
	Name       string `json:"name"`
	VendorName string `json:"vendor_name"`
	Version    string `json:"version,omitempty"`
}

type device struct {
	UID      string `json:"uid,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	BootUID  string `json:"boot_uid,omitempty"`
	TypeID   int    `json:"type_id"`
	Type     string `json:"type"`
	OS       system `json:"os"`
}

type system struct {
	Name          string `json:"name"`
	TypeID        int    `json:"type_id"`
	Type          string `json:"type"`
	KernelRelease string `json:"kernel_release,omitempty"`
}

type actor struct {
	Process *process `json:"process,omitempty"`
	User    *account `json:"user,omitempty"`
	AppName string   `json:"app_name,omitempty"`
	AppUID  string   `json:"app_uid,omitempty"`
}

// entity identifies a process and describes it.
type entity struct {
	UID         string `json:"uid,omitempty"`
	PID         int    `json:"pid,omitempty"`
	Name        string `json:"name,omitempty"`
	Path        string `json:"path,omitempty"`
	CreatedTime int64  `json:"created_time,omitempty"`
	CmdLine     string `json:"cmd_line"` // empty: not known
}

type process struct {
	entity
	File           *file      `json:"file,omitempty"`
	User           *account   `json:"user,omitempty"`
	Container      *container `json:"container,omitempty"`
	TerminatedTime int64      `json:"terminated_time,omitempty"`
	Parent         *process   `json:"parent_process,omitempty"`
	Ancestry       []entity   `json:"ancestry,omitempty"`
}

type file struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	TypeID int    `json:"type_id"`
	Type   string `json:"type"`
}

type account struct {
	UID    string `json:"uid"`
	Name   string `json:"name,omitempty"`
	TypeID int    `json:"type_id"`
	Type   string `json:"type"`
}

type container struct {
	UID  string `json:"uid,omitempty"`
	Name string `json:"name,omitempty"`
}

type remediation struct {
	Desc string `json:"desc"`
}

type findingInfo struct {
	UID         string   `json:"uid"`
	Title       string   `json:"title"`
	Desc        string   `json:"desc,omitempty"`
	Types       []string `json:"types"`
	CreatedTime int64    `json:"created_time"`
	Analytic    analytic `json:"analytic"`
}

type analytic struct {
	UID    string `json:"uid"`
	Name   string `json:"name"`
	TypeID int    `json:"type_id"`
	Type   string `json:"type"`
}

type evidence struct {
	Process *process `json:"process,omitempty"`
	Actor   *actor   `json:"actor,omitempty"`
	Data    any      `json:"data,omitempty"`
}

// unmapped has what OCSF 1.8 has no attributes for.
type unmapped struct {
	AIAgent *aiAgent      `json:"ai_agent,omitempty"`
	Lineage lineageFields `json:"lineage"`
}

// aiAgent has the attributes of OCSF 1.9's object.
type aiAgent struct {
	UID         string `json:"uid"`
	Name        string `json:"name"`
	InstanceUID string `json:"instance_uid"`
}

// lineageFields are lineage's own facts.
type lineageFields struct {
	Session    *session    `json:"session,omitempty"`
	Creator    *processRef `json:"creator,omitempty"`
	Evidence   string      `json:"evidence,omitempty"`
	Confidence string      `json:"confidence,omitempty"`
	Signal     string      `json:"signal,omitempty"`
	CPUSeconds float64     `json:"cpu_seconds,omitempty"`
	MaxRSS     uint64      `json:"max_rss_bytes,omitempty"`
	Cgroup     string      `json:"cgroup,omitempty"`
	Trace      *trace      `json:"trace,omitempty"`
	Calls      []call      `json:"tool_calls,omitempty"`
	Outcome    string      `json:"outcome,omitempty"`
	Why        string      `json:"why,omitempty"`
	Leftover   bool        `json:"leftover,omitempty"`
	Receipt    *receipt    `json:"receipt,omitempty"`
	Lost       *lost       `json:"lost,omitempty"`
	Condition  *condition  `json:"condition,omitempty"`
}

// processRef is the short description of a process.
type processRef struct {
	UID  string `json:"uid"`
	PID  int    `json:"pid"`
	Name string `json:"name,omitempty"`
}

// session is the session that an event belongs to.
type session struct {
	ID       string      `json:"id"`
	UID      string      `json:"uid"` // unique over all hosts and boots
	Name     string      `json:"name,omitempty"`
	Rule     string      `json:"rule,omitempty"`
	UserUID  string      `json:"user_uid,omitempty"`
	Parent   string      `json:"parent,omitempty"`
	Brokered string      `json:"brokered_by,omitempty"`
	Root     *processRef `json:"root,omitempty"`
	Started  int64       `json:"started_time,omitempty"`
}

type trace struct {
	TraceID string `json:"trace_id"`
	SpanID  string `json:"span_id"`
	Claimed bool   `json:"claimed,omitempty"` // a member said so
}

type call struct {
	ID   string `json:"id"`
	Tool string `json:"tool,omitempty"`
}

// lost is a gap in the events.
type lost struct {
	Where string `json:"where"`
	From  uint64 `json:"from,omitempty"` // sequence numbers
	To    uint64 `json:"to,omitempty"`
}

// condition is the daemon's condition, in a finding about the daemon.
type condition struct {
	Level    int      `json:"level"`
	Before   int      `json:"level_before,omitempty"`
	Mode     string   `json:"mode,omitempty"`
	Degraded []string `json:"degraded,omitempty"`
}
