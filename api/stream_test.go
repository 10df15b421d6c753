package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api/internal/require"
)

const endLine = `{"kind":"end","reason":"session_over"}` + "\n"

func stream(t *testing.T, body string) Client {
	return dial(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/jsonl")
		io.WriteString(w, body)
	})
}

func TestEvents(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	for _, tt := range []struct {
		name, body string
		want       []U64 // sequence numbers that each gets
		broken     bool
	}{
		{"whole", `{"seq":"1","type":"fork"}` + "\n\n" + `{"seq":"2","type":"exit","new":[1]}` + "\n" + endLine, []U64{1, 2, 0}, false},
		{"a long line", `{"seq":"1","process":{"pid":1,"argv":["` + long + `"]}}` + "\n" + endLine, []U64{1, 0}, false},
		{"nothing after the end is read", endLine + "garbage", []U64{0}, false},
		{"no end", `{"seq":"1"}` + "\n", []U64{1}, true},
		{"empty", "", nil, true},
		{"cut off in a line", `{"seq":"1"}` + "\n" + `{"seq":"2`, []U64{1}, true},
		{"cut off before the newline", `{"seq":"1"}` + "\n" + `{"seq":"2"}`, []U64{1}, true},
		{"no JSON", `{"seq":"1"}` + "\nhello\n" + endLine, []U64{1}, true},
		{"a number where a string belongs", `{"seq":1}` + "\n" + endLine, nil, true},
		{"a line without end", `{"seq":"1"}` + "\n" + strings.Repeat("y", MaxLine+1), []U64{1}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []U64
			err := stream(t, tt.body).Events(t.Context(), EventsQuery{}, func(ev *Event) error {
				got = append(got, ev.Seq)
				return nil
			})
			if errors.Is(err, ErrBroken) != tt.broken || (err == nil) == tt.broken {
				t.Errorf("got error %v, want broken: %t", err, tt.broken)
			}
			if _, ok := errors.AsType[*UnreachableError](err); ok != tt.broken {
				t.Errorf("got %T, want an *UnreachableError: %t", err, tt.broken)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("saw %v, want %v", got, tt.want)
			}
		})
	}
}

func TestEventsStop(t *testing.T) {
	t.Run("by the reader", func(t *testing.T) {
		enough := errors.New("enough")
		err := stream(t, `{"seq":"1"}`+"\n"+endLine).Events(t.Context(), EventsQuery{}, func(*Event) error { return enough })
		if !errors.Is(err, enough) {
			t.Errorf("got %v, want the reader's own error", err)
		}
	})
	t.Run("by the context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := dial(t, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, `{"seq":"1"}`+"\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		err := c.Events(ctx, EventsQuery{}, func(*Event) error { cancel(); return nil })
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrBroken) {
			t.Errorf("got %v, want canceled", err)
		}
	})
}

func TestProcessLine(t *testing.T) {
	in := Event{Head: Head{Kind: "process"}, Process: &Process{Ref: Ref{7, 8}, Session: "k3x9q2", Comm: "sh"}}
	b, err := json.Marshal(in)
	require.NoError(t, err)
	if want := `{"kind":"process","pid":7,"start_ns":"8","session":"k3x9q2","comm":"sh"}`; string(b) != want {
		t.Errorf("wrote %s, want %s", b, want)
	}
	var out Event
	require.NoError(t, json.Unmarshal(b, &out))
	if !reflect.DeepEqual(in, out) {
		t.Errorf("read %+v, want %+v", out, in)
	}
}

func FuzzU64(f *testing.F) {
	for _, s := range []string{`"0"`, `"18446744073709551615"`, `"18446744073709551616"`, `1`, `null`, `"-1"`, `"1`, `"+1"`, `"1_0"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var u, again U64
		if json.Unmarshal(in, &u) != nil {
			return
		}
		b, err := json.Marshal(u)
		require.NoError(t, err)
		if err := json.Unmarshal(b, &again); err != nil || again != u {
			t.Fatalf("%s read as %d, written as %s, read as %d, %v", in, u, b, again, err)
		}
	})
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(endLine))
	f.Add([]byte(`{"kind":"process","pid":1,"start_ns":"5","argv":["\u001b"],"parent":{"pid":2}}` + "\n" + `{"seq":"3","type":"exit","process":{"pid":1}}` + "\n"))
	f.Add([]byte(`{"kind":"process","pid":1,"process":{"kind":"x","pid":1}}` + "\n"))
	f.Add([]byte("{\"kind\":\"\xff\"}\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		ReadEvents(bytes.NewReader(in), func(ev *Event) error {
			b, err := json.Marshal(ev)
			if err != nil {
				t.Fatalf("%+v cannot be written: %v", ev, err)
			}
			var again Event
			if err := json.Unmarshal(b, &again); err != nil {
				t.Fatalf("%s cannot be read: %v", b, err)
			}
			c, err := json.Marshal(again)
			if err != nil || !bytes.Equal(b, c) {
				t.Fatalf("%s comes back as %s, %v", b, c, err)
			}
			return nil
		})
	})
}
