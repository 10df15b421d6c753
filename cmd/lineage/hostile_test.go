package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// hostile is a name that a process may choose.
const hostile = "a\x1b[2J\x1b]0;owned\a\nlineage: all ended\r\t\x00\u202egnp.exe\u2028\xff\xfe\u009b31m\x7f'\\"

// poison puts hostile into every string of a document.
func poison(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			poison(v.Elem())
		}
	case reflect.Struct:
		if v.CanAddr() && v.Addr().MethodByName("UnixNano").IsValid() {
			return // a time
		}
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			// Ids, and the fields that commands decide by, are chosen by the daemon.
			if name == "Kind" || name == "Schema" || name == "Type" || name == "State" && v.Type() != reflect.TypeFor[api.Report]() || name == "ID" ||
				name == "Outcome" && v.Field(i).Kind() == reflect.String ||
				name == "Verdict" {
				continue
			}
			poison(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i))
		}
	case reflect.String:
		if v.String() != "" {
			v.SetString(hostile)
		}
	}
}

func hostileFake() *apitest.Client {
	f := newFake()
	for i := range f.Has.Sessions {
		poison(reflect.ValueOf(&f.Has.Sessions[i]))
	}
	for _, t := range f.Has.Trees {
		poison(reflect.ValueOf(t))
	}
	for _, w := range f.Has.Whys {
		poison(reflect.ValueOf(w))
	}
	poison(reflect.ValueOf(f.Has.Events))
	poison(reflect.ValueOf(f.Has.Orphans))
	f.On.End = func(id string, _ api.EndRequest) (*api.Report, error) {
		r := cleanReport(id)
		r.Name = "x"
		poison(reflect.ValueOf(r))
		r.Verdict, r.VerdictWhy, r.Left = "left", hostile, 1
		r.Processes = append(r.Processes, api.Outcome{Ref: ref(9), Outcome: "left", Why: hostile})
		return r, nil
	}
	return f
}

// Whatever a process is called, a terminal gets safe text: no controls but newline, no
// extra lines, and valid JSON.
func TestHostileStrings(t *testing.T) {
	for _, line := range []string{"ls", "ls --all", "tree", "tree k3x9q2", "LC_ALL=C tree", "why 4130", "why 900", "events",
		"end -y k3x9q2 m8p4z1", "ls --left", "ls --outside", "history e7d7c7", "doctor", "version"} {
		for _, format := range []string{"table", "wide", "name", "json", "jsonl"} {
			rest, ascii := strings.CutPrefix(line, "LC_ALL=C ")
			args := append(strings.Fields(rest), "-o", format)
			w, other := newWorld(t, hostileFake()), newWorld(t, newFake())
			if ascii {
				w.vars["LC_ALL"], other.vars["LC_ALL"] = "C", "C"
			}
			_, stdout, stderr := w.run(args...)
			_, tame, _ := other.run(args...)
			for _, got := range []string{stdout, stderr} {
				if bad := unprintable(got); bad != "" {
					t.Errorf("%v: prints %q: %q", args, bad, got)
				}
			}
			if strings.Contains(stdout+stderr, "\nlineage: all ended") {
				t.Errorf("%v: a process speaks for us", args)
			}
			if format == "json" && !strings.HasPrefix(line, "events") && !json.Valid([]byte(stdout)) {
				t.Errorf("%v: no JSON: %s", args, stdout)
			}
			if format == "jsonl" {
				for l := range strings.Lines(stdout) {
					if !json.Valid([]byte(l)) {
						t.Errorf("%v: no JSON: %s", args, l)
					}
				}
			}
			if got, want := strings.Count(stdout, "\n"), strings.Count(tame, "\n"); got != want && format != "json" && !strings.HasPrefix(line, "end") {
				t.Errorf("%v: %d lines, want %d: %s", args, got, want, stdout)
			}
		}
	}
}

func unprintable(s string) string {
	if !utf8.ValidString(s) {
		return "invalid UTF-8"
	}
	for _, r := range s {
		// JSON may contain characters that text may not, as long as none moves the cursor.
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028') {
			return string(r)
		}
	}
	return ""
}

// Escaping changes no value.
func TestVisibleJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.String().Draw(t, "in")
		var b bytes.Buffer
		p := text.NewPage(&b, noon)
		require.NoError(t, errors.Join(p.JSON().Encode(in), p.Flush()))
		var out string
		if err := json.Unmarshal(b.Bytes(), &out); err != nil || out != in {
			t.Fatalf("%q comes back as %q, %v", in, out, err)
		}
		if bad := unprintable(b.String()); bad != "" {
			t.Fatalf("%q is written as %q", in, b.String())
		}
	})
}

func TestHostileCompletion(t *testing.T) {
	_, stdout, _ := newWorld(t, hostileFake()).run("__complete", "end", "")
	for l := range strings.Lines(stdout) {
		if bad := unprintable(strings.ReplaceAll(l, "\t", " ")); bad != "" || strings.Count(l, "\t") > 1 {
			t.Errorf("completes %q", l)
		}
	}
}
