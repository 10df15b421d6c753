// Package ocsf makes OCSF 1.8.0 events of records: Process Activity when a process starts or
// exits, Process Remediation Activity for an end, Detection Finding for what people should
// check, and a Base Event where events are missing.
package ocsf

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
)

// Version is that of the schema.
const Version = "1.8.0"

// Encoder makes events. It is not safe for concurrent use.
type Encoder struct {
	users users
}

func New() *Encoder { return &Encoder{users: users{name: nameOnHost}} }

type class struct {
	uid         int
	name        string
	categoryUID int
	category    string
}

var (
	baseEvent          = class{0, "Base Event", 0, "Uncategorized"}
	processActivity    = class{1007, "Process Activity", 1, "System Activity"}
	detectionFinding   = class{2004, "Detection Finding", 2, "Findings"}
	processRemediation = class{7003, "Process Remediation Activity", 7, "Remediation"}
)

type activity struct {
	class
	id      int
	name    string
	caption string // instead of name, where OCSF has no name
}

var (
	launched   = activity{processActivity, 1, "Launch", ""}
	terminated = activity{processActivity, 2, "Terminate", ""}
	setUserID  = activity{processActivity, 5, "Set User ID", ""}
	created    = activity{detectionFinding, 1, "Create", ""}
	closed     = activity{detectionFinding, 3, "Close", ""}
	evicted    = activity{processRemediation, 2, "Evict", ""}
	missed     = activity{baseEvent, 99, "Other", "Lost"}
)

// severity is how urgent an event is.
type severity int

const (
	informational severity = iota + 1
	low
	medium
	high
)

var severities = [...]struct {
	name string
	otel int // OpenTelemetry's number
}{informational: {"Informational", 9}, low: {"Low", 9}, medium: {"Medium", 13}, high: {"High", 17}}

// Encode is a [follow.Encoder]: a record that OCSF has no event for gives none.
func (e *Encoder) Encode(r *follow.Record) iter.Seq[follow.LogRecord] {
	return func(yield func(follow.LogRecord) bool) {
		for v := range e.events(r) {
			if !yield(follow.LogRecord{Severity: severities[v.SeverityID].otel,
				Line: v.Message, JSON: encode(v)}) {
				return
			}
		}
	}
}

func (e *Encoder) events(r *follow.Record) iter.Seq[*event] {
	var all []*event
	switch r.Kind {
	case api.EventFork, api.EventExec:
		all = append(all, e.launch(r))
		if changed(r) {
			all = append(all, e.setUser(r))
		}
	case api.EventExit:
		all = append(append(all, e.exit(r)), e.death(r)...)
	case api.EventLost:
		all = append(all, lostEvents(r))
	case follow.End:
		return e.end(r)
	case follow.Status:
		all = health(r)
	case follow.Orphans:
		all = e.present(r)
	case follow.Busy:
		all = append(all, e.busy(r))
	case api.EventCrossing:
		all = e.crossing(r)
	}
	return slices.Values(all)
}

// encode writes an event without a newline. Text from processes stays as it is, except
// for JSON escapes.
func encode(v *event) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // it has texts and numbers, and no number that JSON cannot write
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// newEvent begins an event of a record. Uid distinguishes those of one record; code is
// lineage's word for what happened.
func newEvent(r *follow.Record, a activity, s severity, uid, code, message string) *event {
	v := &event{
		Time: r.Time.UnixMilli(), Message: message,
		ClassUID: a.uid, ClassName: a.class.name, CategoryUID: a.categoryUID, CategoryName: a.category,
		ActivityID: a.id, ActivityName: cmp.Or(a.caption, a.name), TypeUID: a.uid*100 + a.id,
		TypeName:   a.class.name + ": " + a.name,
		SeverityID: int(s), Severity: severities[s].name,
		Metadata: metadata{
			Version: Version, UID: uid, EventCode: code, Profiles: []string{"container", "host"},
			Product: product{Name: "lineage", VendorName: "lineage", Version: r.Host.Version},
		},
		Device: device{
			UID: r.Host.ID, Hostname: r.Host.Name, BootUID: r.Boot, Type: "Unknown",
			OS: system{Name: "Linux", TypeID: 200, Type: "Linux", KernelRelease: r.Host.Kernel},
		},
	}
	if r.Event != nil {
		v.Metadata.Sequence = uint64(r.Event.Seq)
	}
	if s := r.Session; s != nil {
		v.Metadata.CorrelationUID = follow.SessionUID(r, s.ID)
		v.Unmapped.Lineage.Session = sessionOf(r)
		if s.Rule != "" {
			v.Unmapped.AIAgent = &aiAgent{UID: s.Rule, Name: s.Rule,
				InstanceUID: v.Metadata.CorrelationUID}
		}
	}
	return v
}

func sessionOf(r *follow.Record) *session {
	s := r.Session
	d := &session{
		ID: s.ID, UID: follow.SessionUID(r, s.ID), Name: s.Name, Rule: s.Rule,
		Parent: s.Parent, Delegated: s.DelegatedBy,
	}
	if !s.Unknown {
		d.UserUID = strconv.Itoa(s.UID)
	}
	if s.Started != nil {
		d.Started = s.Started.UnixMilli()
	}
	if s.Root != nil {
		d.Root = refOf(r, s.Root.Ref, s.Root.Comm)
	}
	return d
}

func lostEvents(r *follow.Record) *event {
	x := r.Event
	v := newEvent(r, missed, low, r.ID, "lost", lostMessage(x))
	v.Count = x.Count
	if x.SinceNS != 0 && x.UntilNS > x.SinceNS && x.TimeNS >= x.UntilNS {
		end := r.Time.Add(-time.Duration(x.TimeNS - x.UntilNS))
		v.StartTime, v.EndTime = end.Add(-time.Duration(x.UntilNS-x.SinceNS)).UnixMilli(), end.UnixMilli()
	}
	v.Unmapped.Lineage.Lost = &lost{Where: x.Where, From: uint64(x.LostFrom), To: uint64(x.LostTo)}
	return v
}
