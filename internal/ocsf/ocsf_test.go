package ocsf

import (
	"strings"
	"testing"
)

// launch is a small valid event.
const launch = `{
	"class_uid": 1007, "class_name": "Process Activity", "category_uid": 1, "category_name": "System Activity",
	"activity_id": 1, "activity_name": "Launch", "type_uid": 100701, "type_name": "Process Activity: Launch",
	"severity_id": 1, "severity": "Informational", "time": 1700000000000, "message": "x",
	"metadata": {"version": "1.8.0", "product": {"name": "lineage"}, "profiles": ["container", "host"]},
	"device": {"type_id": 0, "hostname": "h", "os": {"name": "Linux", "type_id": 200, "type": "Linux"}},
	"actor": {"process": {"pid": 1}},
	"process": {"pid": 2, "container": {"uid": "c"}, "ancestry": [{"pid": 1}], "file": {"name": "a", "type_id": 1}},
	"unmapped": {"anything": [1, {}]}
}`

func TestValid(t *testing.T) {
	if err := Validate([]byte(launch)); err != nil {
		t.Error(err)
	}
}

// TestInvalid breaks the event in one place at a time, and expects the error to name that place.
func TestInvalid(t *testing.T) {
	for _, c := range []struct{ old, broken, want string }{
		{`"class_uid": 1007`, `"class_uid": 1001`, "class_uid: 1001 is not a class"},
		{`"class_uid": 1007,`, ``, "class_uid: <nil> is not a class"},
		{`"category_uid": 1`, `"category_uid": 2`, "category_uid: 2, want 1"},
		{`"Process Activity"`, `"Process"`, "class_name: Process, want"},
		{`"activity_id": 1`, `"activity_id": 9`, "activity_id: 9 is not in the enumeration"},
		{`"activity_name": "Launch"`, `"activity_name": "Start"`, `activity_id: 1 is "Launch", activity_name has "Start"`},
		{`"activity_id": 1, "activity_name": "Launch", "type_uid": 100701`, `"activity_id": 99, "type_uid": 100799`, "99 without its own word in activity_name"},
		{`100701`, `100702`, "type_uid: 100702, want 100701"},
		{`Activity: Launch`, `Activity: Open`, "type_name: "},
		{`"severity_id": 1, `, ``, "severity_id: required, and missing"},
		{`1700000000000`, `1700000000`, "time: 1700000000 is not a time"},
		{`1700000000000`, `1700000000000.5`, "is not a whole number"},
		{`1700000000000`, `"1700000000000"`, "is not a whole number"},
		{`"message": "x"`, `"message": 1`, "message: 1 is not a string"},
		{`"message"`, `"massage"`, "massage: not an attribute"},
		{`1.8.0`, `1.7.0`, "metadata.version: 1.7.0"},
		{`"name": "lineage"`, ``, "metadata.product: has none of name, uid"},
		{`"container", `, ``, "process.container: of profile container"},
		{`"host"]`, `"hosts"]`, `"hosts" is not a profile`},
		{`"type_id": 0, `, ``, "device.type_id: required"},
		{`"actor": {"process": {"pid": 1}}`, `"actor": {}`, "actor: has none of process"},
		{`"ancestry": [{"pid": 1}]`, `"ancestry": []`, "process.ancestry: want a list"},
		{`"ancestry": [{"pid": 1}]`, `"ancestry": [{"pid": 1}, {}]`, "process.ancestry[1]: has none of"},
		{`"ancestry": [{"pid": 1}]`, `"ancestry": [{"user": {}}]`, "process.ancestry[0].user: not an attribute"},
		{`"process": {"pid": 2`, `"process": {"tid": 2`, "process.tid: not an attribute"}, // deprecated
		{`"file": {"name": "a", `, `"file": {`, "process.file.name: required"},
		{`"process": {"pid": 1}`, `"process": 1`, "actor.process: 1 is not an object"},
		{`"unmapped": {"anything": [1, {}]}`, `"unmapped": []`, "unmapped: [] is not an object"},
		{`"unmapped": {"anything": [1, {}]}`, `"is_alert": true`, "is_alert: not an attribute"}, // for findings
		{launch, launch + launch, "more than one value"},
		{"h\"", "\xff\"", "not UTF-8"},
	} {
		broken := strings.Replace(launch, c.old, c.broken, 1)
		if broken == launch {
			t.Fatalf("%s is not in the event", c.old)
		}
		if err := Validate([]byte(broken)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.broken, err, c.want)
		}
	}
}
