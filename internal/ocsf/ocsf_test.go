package ocsf

import (
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
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
	require.NoError(t, Validate([]byte(launch)))
}

// TestInvalid breaks the event in one place at a time, and expects the error to name that place.
func TestInvalid(t *testing.T) {
	for _, c := range []struct{ old, broken, want string }{
		{`"class_uid": 1007`, `"class_uid": 1001`, "at '/class_uid': value must be one of 0"},
		{`"class_uid": 1007,`, ``, "missing property 'class_uid'"},
		{`"category_uid": 1`, `"category_uid": 2`, "at '/category_uid': value must be 1"},
		{`"Process Activity"`, `"Process"`, "at '/class_name': value must be 'Process Activity'"},
		{`"activity_id": 1`, `"activity_id": 9`, "at '/activity_id': value must be one of 0"},
		{`"activity_name": "Launch"`, `"activity_name": "Start"`, "at '/activity_name': value must be 'Launch'"},
		{`"activity_id": 1, "activity_name": "Launch", "type_uid": 100701`, `"activity_id": 99, "type_uid": 100799`, "missing property 'activity_name'"},
		{`100701`, `100702`, "at '/type_uid': value must be 100701"},
		{`Activity: Launch`, `Activity: Open`, "at '/type_name': value must be 'Process Activity: Launch'"},
		{`"severity_id": 1, `, ``, "missing property 'severity_id'"},
		{`1700000000000`, `1700000000`, "at '/time': minimum"},
		{`1700000000000`, `1700000000000.5`, "at '/time': got number, want integer"},
		{`1700000000000`, `"1700000000000"`, "at '/time': got string, want integer"},
		{`"message": "x"`, `"message": 1`, "at '/message': got number, want string"},
		{`"message"`, `"massage"`, "additional properties 'massage'"},
		{`1.8.0`, `1.7.0`, "at '/metadata/version': value must be '1.8.0'"},
		{`"name": "lineage"`, ``, "at '/metadata/product': 'anyOf' failed"},
		{`"container", `, ``, "at '/process/container': false"},
		{`"host"]`, `"hosts"]`, "at '/metadata/profiles/1': value must be one of"},
		{`"type_id": 0, `, ``, "at '/device': missing property 'type_id'"},
		{`"actor": {"process": {"pid": 1}}`, `"actor": {}`, "at '/actor': 'anyOf' failed"},
		{`"ancestry": [{"pid": 1}]`, `"ancestry": []`, "at '/process/ancestry': minItems"},
		{`"ancestry": [{"pid": 1}]`, `"ancestry": [{"pid": 1}, {}]`, "at '/process/ancestry/1': 'anyOf' failed"},
		{`"ancestry": [{"pid": 1}]`, `"ancestry": [{"user": {}}]`, "at '/process/ancestry/0': additional properties 'user'"},
		{`"process": {"pid": 2`, `"process": {"tid": 2`, "at '/process': additional properties 'tid'"}, // deprecated
		{`"file": {"name": "a", `, `"file": {`, "at '/process/file': missing property 'name'"},
		{`"process": {"pid": 1}`, `"process": 1`, "at '/actor/process': got number, want object"},
		{`"unmapped": {"anything": [1, {}]}`, `"unmapped": []`, "at '/unmapped': got array, want object"},
		{`"unmapped": {"anything": [1, {}]}`, `"is_alert": true`, "additional properties 'is_alert'"}, // for findings
		{launch, launch + launch, "after top-level value"},
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
