package api

import (
	"errors"
	"io"
	"net/http"
	"testing"
)

func TestWatch(t *testing.T) {
	var asked string
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RequestURI()
		io.WriteString(w, `{"kind":"snapshot","rev":"1","upsert":[{"pid":7,"start_ns":"8","comm":"sh"}],"status":{"level":4,"mode":"observe","forks":3}}`+"\n"+
			`{"kind":"heartbeat","time_ns":"5"}`+"\n"+
			`{"kind":"diff","rev":"2","remove":[{"pid":7,"start_ns":"8"}],"closed":["k3x9q2"],"new":1}`+"\n"+endLine)
	})
	var kinds []string
	var gone []Ref
	err := c.Watch(t.Context(), WatchQuery{Session: "k3x9q2", Hz: 4}, func(f *Frame) error {
		kinds, gone = append(kinds, f.Kind), append(gone, f.Remove...)
		return nil
	})
	if err != nil || len(kinds) != 4 || kinds[3] != "end" || len(gone) != 1 || gone[0] != (Ref{7, 8}) {
		t.Errorf("%v %v %v", kinds, gone, err)
	}
	if want := "/v1/watch?hz=4&session=k3x9q2"; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
	broken := dial(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"kind":"snapshot"}`+"\n") })
	if err := broken.Watch(t.Context(), WatchQuery{}, func(*Frame) error { return nil }); !errors.Is(err, ErrNoEnd) {
		t.Errorf("without an end: %v", err)
	}
}

func TestKill(t *testing.T) {
	var asked string
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		asked = r.Method + " " + r.URL.RequestURI() + " " + string(b)
		io.WriteString(w, `{"kind":"killed","process":{"pid":7,"start_ns":"8"},"outcome":"sent"}`)
	})
	k, err := c.Kill(t.Context(), "7@8", KillRequest{Signal: "TERM"})
	if err != nil || k.Outcome != "sent" || k.Process.PID != 7 {
		t.Errorf("%+v %v", k, err)
	}
	if want := `POST /v1/processes/7@8/kill {"signal":"TERM"}`; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
	if _, err := c.Kill(t.Context(), "../x", KillRequest{}); err == nil {
		t.Error("what is no process was asked for")
	}
}
