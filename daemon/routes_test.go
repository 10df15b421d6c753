//go:build linux

package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
)

func TestVersionAndStatus(t *testing.T) {
	w := newWorld(t)
	a := w.do("user", "GET", "/v1/version", nil)
	v := into[api.Version](a, http.StatusOK)
	if v.Kind != "version" || v.Schema != api.Schema || v.API != api.Major || v.Version != "9.9.9" || v.Level != 4 || v.Started == nil {
		t.Errorf("%+v", v)
	}
	if a.header.Get(api.HeaderVersion) != "9.9.9" || a.header.Get(api.HeaderAPI) != "1" {
		t.Errorf("headers %v", a.header)
	}
	w.session("user", 100, api.NewSession{})
	w.k.Count("events", 5)
	into[api.Resync](w.do("root", "POST", "/v1/resync", nil), http.StatusOK)
	for who, counters := range map[string]bool{"root": true, "reader": true, "user": false, "100": false} {
		s := into[api.Status](w.do(who, "GET", "/v1/status", nil), http.StatusOK)
		if s.Sessions != 1 || s.Live != 1 || (s.Counters["events"] == 5) != counters {
			t.Errorf("%s: %+v", who, s)
		}
	}
}

// A refused program on which nothing promised depends is reported, but not as degraded:
// every reader of the tree would see that forever.
func TestLimitsAreNoDegradation(t *testing.T) {
	w := newWorld(t)
	limit, broken := "fentry/attach_pid: refused by this kernel", "programs loaded again: link_fork_birth is gone"
	w.k.Feature.Limits, w.k.Feature.Degraded = []string{limit}, []string{broken}
	s := w.session("user", 100, api.NewSession{})
	st := into[api.Status](w.do("user", "GET", "/v1/status", nil), http.StatusOK)
	if !slices.Equal(st.Limits, []string{limit}) || !slices.Equal(st.Degraded, []string{broken}) {
		t.Errorf("limits %q, degraded %q", st.Limits, st.Degraded)
	}
	if first := w.watch("user", "").next(); !slices.Equal(first.Status.Degraded, []string{broken}) {
		t.Errorf("the tree is degraded by %q", first.Status.Degraded)
	}
	if got := into[api.Session](w.do("user", "GET", "/v1/sessions/"+s.ID, nil), http.StatusOK); len(got.Degraded) != 0 {
		t.Errorf("the session is degraded by %q", got.Degraded)
	}
}

func TestCreate(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{Name: "build", GraceMS: ms(1500), MaxProcesses: 9})
	if s.Kind != "session" || s.Name != "build" || s.UID != 1000 || s.State != "active" || s.Live != 1 ||
		s.GraceSeconds != 1.5 || s.Owner == nil || s.Owner.PID != userPID || s.Owner.StartNS == 0 ||
		s.Root == nil || s.Root.PID != 100 || s.Started == nil || len(s.ID) != 6 {
		t.Errorf("%+v", s)
	}
	if len(s.Token) != 52 {
		t.Errorf("token %q", s.Token)
	}
	again := into[api.Session](w.do("user", "GET", "/v1/sessions/build", nil), http.StatusOK)
	if again.Token != "" || again.ID != s.ID {
		t.Errorf("%+v", again)
	}
	info, err := w.k.Sessions()
	if err != nil || len(info) != 1 || info[0].MaxProcesses != 9 || info[0].UID != 1000 {
		t.Errorf("%+v %v", info, err)
	}
	if d := w.session("user", 101, api.NewSession{}); d.GraceSeconds != 5 {
		t.Errorf("default grace %v", d.GraceSeconds)
	}
	t.Run("the name is free for another uid", func(t *testing.T) { w.session("else", 102, api.NewSession{Name: "build"}) })
	t.Run("nested", func(t *testing.T) {
		w.proc(200, 100, 1000, "lngtest-agent")
		w.k.Fork(100, 200, "lngtest-agent")
		w.proc(201, 200, 1000, "lngtest-sub")
		w.k.Fork(200, 201, "lngtest-sub")
		d := into[api.Session](w.do("200", "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 201}}), http.StatusCreated)
		if d.Parent != s.ID {
			t.Errorf("parent %q, want %q", d.Parent, s.ID)
		}
	})
}

func TestCreateRefused(t *testing.T) {
	w := newWorld(t)
	w.session("user", 100, api.NewSession{Name: "taken"})
	w.host(110, userPID, 1000, "lngtest-child")
	w.host(111, shell, 1000, "lngtest-sibling")
	w.host(112, userPID, 0, "lngtest-setuid")
	w.host(113, userPID, 1000, "lngtest-dead")
	w.k.Edit(113, func(p *kerneltest.Proc) { p.Unreaped = true })
	w.k.Exit(113, 0)
	// Another one, of which procfs alone knows that it is dead.
	w.host(114, userPID, 1000, "lngtest-zombie")
	if err := os.WriteFile(w.h.proc.Path(114, "stat"), []byte(statOf(114, "a", "Z", userPID)), 0o600); err != nil {
		t.Fatal(err)
	}
	child := `"root":{"pid":110}`
	for _, c := range []struct {
		name, who, body, code string
	}{
		{"no root", "user", `{}`, api.CodeBadRequest},
		{"no json", "user", `{`, api.CodeBadRequest},
		{"no object", "user", `[1]`, api.CodeBadRequest},
		{"unknown field", "user", `{"nmae":"x",` + child + `}`, api.CodeBadRequest},
		{"unknown nested field", "user", `{"root":{"pid":110,"start":"1"}}`, api.CodeBadRequest},
		{"wrong type", "user", `{"root":{"pid":"x"}}`, api.CodeBadRequest},
		{"start as number", "user", `{"root":{"pid":110,"start_ns":5}}`, api.CodeBadRequest},
		{"name with a space", "user", `{"name":"a b",` + child + `}`, api.CodeBadRequest},
		{"name too long", "user", `{"name":"` + strings.Repeat("a", 65) + `",` + child + `}`, api.CodeBadRequest},
		{"negative grace", "user", `{"grace_ms":-1,` + child + `}`, api.CodeBadRequest},
		{"grace too long", "user", `{"grace_ms":600001,` + child + `}`, api.CodeBadRequest},
		{"negative limit", "user", `{"max_processes":-1,` + child + `}`, api.CodeBadRequest},
		{"on_root_exit", "user", `{"on_root_exit":"keep",` + child + `}`, api.CodeBadRequest},
		{"too large", "user", `{"name":"` + strings.Repeat("a", 64<<10) + `"}`, api.CodeTooLarge},
		{"another PID namespace", "away", `{` + child + `}`, api.CodePIDNamespace},
		{"name is taken", "user", `{"name":"taken",` + child + `}`, api.CodeBusyName},
		{"nobody", "user", `{"root":{"pid":4000}}`, api.CodeNotFound},
		{"a PID of more than 31 bits", "user", `{"root":{"pid":4294967406}}`, api.CodeBadRequest},
		{"a negative PID", "user", `{"root":{"pid":-110}}`, api.CodeBadRequest},
		{"zombie", "user", `{"root":{"pid":113}}`, api.CodeNotFound},
		{"zombie in procfs", "user", `{"root":{"pid":114}}`, api.CodeNotFound},
		{"another start", "user", `{"root":{"pid":110,"start_ns":"5"}}`, api.CodeIdentity},
		{"somebody else's child", "user", `{"root":{"pid":111}}`, api.CodeDenied},
		{"even for root", "root", `{"root":{"pid":110}}`, api.CodeDenied},
		{"another uid", "user", `{"root":{"pid":112}}`, api.CodeDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := w.do(c.who, "POST", "/v1/sessions", c.body).refused(c.code)
			if e.Message == "" || e.Exit != api.NewError(c.code, "", "").Exit {
				t.Errorf("%+v", e)
			}
			if c.name == "unknown field" && !strings.Contains(e.Hint, `"name"`) {
				t.Errorf("no suggestion: %+v", e)
			}
		})
	}
	if all, _ := w.k.Sessions(); len(all) != 1 {
		t.Errorf("%d sessions", len(all))
	}
}

func TestSessions(t *testing.T) {
	w := newWorld(t)
	a := w.session("user", 100, api.NewSession{Name: "a"})
	b := w.session("else", 101, api.NewSession{Name: "b"})
	c := w.session("user", 102, api.NewSession{Name: "c", GraceMS: ms(0)})
	w.k.Exit(102, 0)
	w.receipt(c.ID)
	for _, l := range []struct {
		who, query string
		want       []string
	}{
		{"root", "", []string{"a", "b"}},
		{"reader", "", []string{"a", "b"}},
		{"user", "", []string{"a"}},
		{"else", "", []string{"b"}},
		{"100", "", []string{"a"}},
		{"root", "?state=all", []string{"a", "b", "c"}},
		{"root", "?state=ended", []string{"c"}},
		{"user", "?state=ended", []string{"c"}},
		{"100", "?state=ended", nil},
		{"root", "?name=b", []string{"b"}},
		{"user", "?name=b", nil},
	} {
		var got []string
		doc := into[api.Sessions](w.do(l.who, "GET", "/v1/sessions"+l.query, nil), http.StatusOK)
		for _, s := range doc.Items {
			got = append(got, s.Name)
		}
		if !slices.Equal(got, l.want) || doc.Items == nil {
			t.Errorf("%s%s: %v, want %v", l.who, l.query, got, l.want)
		}
	}
	w.do("root", "GET", "/v1/sessions?state=old", nil).refused(api.CodeBadRequest)
	w.do("root", "GET", "/v1/sessions?stat=all", nil).refused(api.CodeBadRequest)
	w.do("root", "GET", "/v1/sessions?state=all&state=live", nil).refused(api.CodeBadRequest)
	w.do("root", "GET", "/v1/sessions/nobody", nil).refused(api.CodeNotFound)
	e := w.do("user", "GET", "/v1/sessions/"+b.ID, nil).refused(api.CodeDenied)
	if !strings.Contains(e.Message, "uid 1001") || e.Hint == "" {
		t.Errorf("%+v", e)
	}
	w.do("user", "GET", "/v1/sessions/b", nil).refused(api.CodeDenied)
	w.session("else", 105, api.NewSession{Name: "a"})
	e = w.do("root", "GET", "/v1/sessions/a", nil).refused(api.CodeAmbiguous)
	if len(e.Items) != 2 || e.Items[0].ID != a.ID {
		t.Errorf("%+v", e)
	}
	if s := into[api.Session](w.do("user", "GET", "/v1/sessions/a", nil), http.StatusOK); s.ID != a.ID {
		t.Errorf("user's a is %+v", s)
	}
}

// TestNamesOfOthers: no other user, member or not, can take root's name for a session
// away from root.
func TestNamesOfOthers(t *testing.T) {
	w := newWorld(t)
	job := w.session("root", 100, api.NewSession{Name: "job"})
	w.k.Fork(100, 101, "lngtest-member")
	w.k.Edit(101, func(p *kerneltest.Proc) { p.UID = 1000 })
	w.k.Fork(101, 102, "lngtest-child")
	w.k.Fork(101, 103, "lngtest-child")
	for pid, parent := range map[uint32]uint32{101: 100, 102: 101, 103: 101} {
		w.proc(pid, parent, 1000, "lngtest-member")
	}
	nest := func(pid int, name string) answered {
		return w.do("101", "POST", "/v1/sessions", api.NewSession{Name: name, Root: api.Ref{PID: pid}})
	}
	nest(102, "job").refused(api.CodeBusyName)
	into[api.Session](nest(102, "inner"), http.StatusCreated)
	w.do("102", "POST", "/v1/sessions", api.NewSession{Name: "job", Root: api.Ref{PID: 103}}).refused(api.CodeDenied) // not its child
	w.k.Fork(102, 104, "lngtest-deep")
	w.proc(104, 102, 1000, "lngtest-deep")
	w.do("102", "POST", "/v1/sessions", api.NewSession{Name: "job", Root: api.Ref{PID: 104}}).refused(api.CodeBusyName)

	w.session("user", 110, api.NewSession{Name: "job"})
	if s := into[api.Session](w.do("root", "GET", "/v1/sessions/job", nil), http.StatusOK); s.ID != job.ID {
		t.Errorf("root's job is %+v", s)
	}
	w.do("reader", "GET", "/v1/sessions/job", nil).refused(api.CodeAmbiguous)
}

func TestNoSuchRoute(t *testing.T) {
	w := newWorld(t)
	for _, r := range []string{"GET /", "GET /v2/sessions", "DELETE /", "GET /v1/sessions/"} {
		method, path, _ := strings.Cut(r, " ")
		w.do("root", method, path, nil).refused(api.CodeNotFound)
	}
	for r, allow := range map[string]string{
		"DELETE /v1/sessions": "GET, HEAD, POST", "POST /v1/version": "GET, HEAD", "PUT /v1/sessions/x": "GET, HEAD", "GET /v1/keep": "POST",
	} {
		method, path, _ := strings.Cut(r, " ")
		a := w.do("root", method, path, nil)
		a.refused(api.CodeMethod)
		if got := a.header.Get("Allow"); got != allow {
			t.Errorf("%s: Allow %q, want %q", r, got, allow)
		}
	}
}

func TestMalformedBody(t *testing.T) {
	w := newWorld(t)
	for text, want := range map[string]string{
		"bogus":                "invalid body: not JSON at byte 1",
		`{"name":`:             "invalid body: not JSON at byte 8",
		"[]":                   "invalid body: must be an object, not a JSON array",
		`{"name":1}`:           "invalid name: not for a JSON number",
		`{"root":{"pid":"x"}}`: "invalid root.pid: not for a JSON string",
	} {
		if e := w.do("user", "POST", "/v1/sessions", text).refused(api.CodeBadRequest); e.Message != want {
			t.Errorf("%s: %s, want %s", text, e.Message, want)
		}
	}
}

func TestHealth(t *testing.T) {
	w := newWorld(t)
	if h := into[api.Health](w.do("else", "GET", "/healthz", nil), http.StatusOK); h.Status != "ok" || h.Degraded != nil {
		t.Errorf("%+v", h)
	}
	w.k.Feature.Degraded = []string{"lngtest"}
	if h := into[api.Health](w.do("else", "GET", "/healthz", nil), http.StatusOK); h.Status != "degraded" || !slices.Equal(h.Degraded, []string{"lngtest"}) {
		t.Errorf("%+v", h)
	}
}

func TestSlowSenders(t *testing.T) {
	w := newWorld(t, func(w *world) { w.h.limits.send = 50 * time.Millisecond })
	for name, text := range map[string]string{
		"headers": "GET /v1/version HTTP/1.1\r\nHost:",
		"body":    "POST /v1/resync HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
	} {
		c, err := w.dial("root")
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, text)
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		// A daemon that closes it before it has read the text makes the read fail.
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays open: %v", name, err)
		}
		c.Close()
	}
}

func TestLimits(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.h.limits.UIDConns, w.h.limits.MemberConns, w.h.limits.Rate, w.h.limits.Burst = 2, 9, 3, 3
	})
	w.session("user", 100, api.NewSession{})
	t.Run("connections of a uid", func(t *testing.T) {
		for range 2 {
			c, err := w.dial("else")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprint(c, "GET /v1/version HTTP/1.1\r\nHost: x\r\n\r\n")
			if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
				t.Fatal(err)
			}
		}
		a := w.do("else", "GET", "/v1/version", nil)
		a.refused(api.CodeTooMany)
		if a.header.Get("Retry-After") == "" {
			t.Errorf("headers %v", a.header)
		}
		into[api.Version](w.do("root", "GET", "/v1/version", nil), http.StatusOK)
	})
	for what, who := range map[string]string{"a session": "100", "a uid": "reader"} {
		t.Run("requests of "+what, func(t *testing.T) {
			for range 3 {
				into[api.Status](w.do(who, "GET", "/v1/status", nil), http.StatusOK)
			}
			w.do(who, "GET", "/v1/status", nil).refused(api.CodeTooMany)
			w.k.Advance(time.Second)
			into[api.Status](w.do(who, "GET", "/v1/status", nil), http.StatusOK)
		})
	}
	for range 9 {
		into[api.Status](w.do("root", "GET", "/v1/status", nil), http.StatusOK)
	}
}

// TestLostCaller: the process that connected died; its connection gives no rights to
// the process that has it now.
func TestLostCaller(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{})
	w.host(120, shell, 1000, "lngtest-brief")
	ask := func(c io.ReadWriter, path string) int {
		t.Helper()
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	c, err := w.dial("120")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := ask(c, "/v1/sessions/"+s.ID); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	w.k.Exit(120, 0)
	if got := ask(c, "/v1/sessions/"+s.ID); got != http.StatusForbidden {
		t.Errorf("dead: status %d", got)
	}
	w.host(120, shell, 0, "lngtest-reuser")
	if got := ask(c, "/v1/sessions/"+s.ID); got != http.StatusForbidden {
		t.Errorf("its PID reused by root: status %d", got)
	}
	if got := ask(c, "/v1/version"); got != http.StatusOK {
		t.Errorf("version: status %d", got)
	}
	w.k.Fail("Lookup", errors.New("broken"))
	w.do("root", "GET", "/v1/sessions/"+s.ID, nil).refused(api.CodeDenied)
}

func TestStop(t *testing.T) {
	w := newWorld(t)
	w.session("user", 100, api.NewSession{})
	w.do("user", "POST", "/v1/daemon/stop", nil).refused(api.CodeDenied)
	w.do("100", "POST", "/v1/daemon/stop", nil).refused(api.CodeDenied)
	w.do("root", "POST", "/v1/daemon/stop", api.StopRequest{Unload: true}).refused(api.CodeLiveSessions)
	into[api.Head](w.do("root", "POST", "/v1/daemon/stop", api.StopRequest{}), http.StatusAccepted)
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	if all, _ := w.k.Sessions(); len(all) != 1 || all[0].State != tracer.StateActive || len(w.k.Signals()) != 0 {
		t.Errorf("sessions %+v, signals %v", all, w.k.Signals())
	}
}
