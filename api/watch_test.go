package api

import (
	"errors"
	"io"
	"net/http"
	"testing"
)

func TestWatch(t *testing.T) {
	c := dial(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"kind":"snapshot","rev":"1","upsert":[{"pid":7,"start_ns":"8","comm":"sh"}],"status":{"level":4,"mode":"observe","forks":3}}`+"\n"+
			`{"kind":"heartbeat","time_ns":"5"}`+"\n"+
			`{"kind":"diff","rev":"2","remove":[{"pid":7,"start_ns":"8"}],"closed":["k3x9q2"],"new":1}`+"\n"+endLine)
	})
	var kinds []string
	var gone []Ref
	err := c.Watch(t.Context(), func(f *Frame) error {
		kinds, gone = append(kinds, f.Kind), append(gone, f.Remove...)
		return nil
	})
	if err != nil || len(kinds) != 4 || kinds[3] != "end" || len(gone) != 1 || gone[0] != (Ref{7, 8}) {
		t.Errorf("%v %v %v", kinds, gone, err)
	}
	broken := dial(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"kind":"snapshot"}`+"\n") })
	if err := broken.Watch(t.Context(), func(*Frame) error { return nil }); !errors.Is(err, ErrNoEnd) {
		t.Errorf("%v, want %v", err, ErrNoEnd)
	}
}
