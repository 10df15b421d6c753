//go:build linux

package httpapi_test

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
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

func TestCreate(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{Name: "build", GraceMS: daemontest.MS(1500), MaxProcesses: 9})
	if s.Kind != "session" || s.Name != "build" || s.UID != 1000 || s.State != "active" || s.Live != 1 ||
		s.GraceSeconds != 1.5 || s.Owner == nil || s.Owner.PID != daemontest.User || s.Owner.StartNS == 0 ||
		s.Root == nil || s.Root.PID != 100 || s.Started == nil || len(s.ID) != 6 {
		t.Errorf("%+v", s)
	}
	if len(s.Token) != 52 {
		t.Errorf("token %q", s.Token)
	}
	again := daemontest.Get[api.Session](w, "user", "/v1/sessions/build")
	if again.Token != "" || again.ID != s.ID {
		t.Errorf("%+v", again)
	}
	info, err := w.K.Sessions()
	if err != nil || len(info) != 1 || info[0].MaxProcesses != 9 || info[0].UID != 1000 {
		t.Errorf("%+v %v", info, err)
	}
	require.Equal(t, w.Session("user", 101, api.NewSession{}).GraceSeconds, 5)
	t.Run("the name is free for another uid", func(t *testing.T) { w.Session("else", 102, api.NewSession{Name: "build"}) })
	t.Run("nested", func(t *testing.T) {
		w.Fork(100, 200, 1000, "lngtest-agent")
		w.Fork(200, 201, 1000, "lngtest-sub")
		d := daemontest.Into[api.Session](w.Do("200", "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 201}}), http.StatusCreated)
		require.Equal(t, d.Parent, s.ID)
	})
}

func TestCreateRefused(t *testing.T) {
	w := daemontest.New(t)
	w.Session("user", 100, api.NewSession{Name: "taken"})
	w.Add(110, daemontest.User, 1000, "lngtest-child")
	w.Add(111, daemontest.Shell, 1000, "lngtest-sibling")
	w.Add(112, daemontest.User, 0, "lngtest-setuid")
	w.Add(113, daemontest.User, 1000, "lngtest-dead")
	w.K.Edit(113, func(p *kerneltest.Proc) { p.Unreaped = true })
	w.K.Exit(113, 0)
	// Another one, of which procfs alone knows that it is dead.
	w.Add(114, daemontest.User, 1000, "lngtest-zombie")
	require.NoError(t, os.WriteFile(w.Host.Proc.Path(114, "stat"), []byte(daemontest.StatOf(114, "a", "Z", daemontest.User)), 0o600))
	child := `"root":{"pid":110}`
	for _, c := range []struct {
		name, who, body, code string
	}{
		{"no root", "user", `{}`, api.CodeBadRequest},
		{"unknown field", "user", `{"nmae":"x",` + child + `}`, api.CodeBadRequest},
		{"unknown nested field", "user", `{"root":{"pid":110,"start":"1"}}`, api.CodeBadRequest},
		{"start as number", "user", `{"root":{"pid":110,"start_ns":5}}`, api.CodeBadRequest},
		{"name with a space", "user", `{"name":"a b",` + child + `}`, api.CodeBadRequest},
		{"name too long", "user", `{"name":"` + strings.Repeat("a", 65) + `",` + child + `}`, api.CodeBadRequest},
		{"negative grace", "user", `{"grace_ms":-1,` + child + `}`, api.CodeBadRequest},
		{"grace too long", "user", `{"grace_ms":600001,` + child + `}`, api.CodeBadRequest},
		{"negative limit", "user", `{"max_processes":-1,` + child + `}`, api.CodeBadRequest},
		{"on_root_exit", "user", `{"on_root_exit":"keep",` + child + `}`, api.CodeBadRequest},
		{"owner of what is adopted", "user", `{"adopt":true,"on_root_exit":"owner",` + child + `}`, api.CodeBadRequest},
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
			e := w.Do(c.who, "POST", "/v1/sessions", c.body).Refused(c.code)
			if e.Message == "" || e.Exit != api.NewError(c.code, "", "").Exit {
				t.Errorf("%+v", e)
			}
			if c.name == "unknown field" && e.Message != `unknown field "nmae"` {
				t.Errorf("no suggestion: %+v", e)
			}
		})
	}
	if all, _ := w.K.Sessions(); len(all) != 1 {
		t.Errorf("%d sessions", len(all))
	}
}

func TestSessions(t *testing.T) {
	w := daemontest.New(t)
	a := w.Session("user", 100, api.NewSession{Name: "a"})
	b := w.Session("else", 101, api.NewSession{Name: "b"})
	c := w.Session("user", 102, api.NewSession{Name: "c", GraceMS: daemontest.MS(0)})
	w.K.Exit(102, 0)
	w.Receipt(c.ID)
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
		doc := daemontest.Into[api.Sessions](w.Do(l.who, "GET", "/v1/sessions"+l.query, nil), http.StatusOK)
		for _, s := range doc.Items {
			got = append(got, s.Name)
		}
		if !slices.Equal(got, l.want) || doc.Items == nil {
			t.Errorf("%s%s: %v, want %v", l.who, l.query, got, l.want)
		}
	}
	w.Do("root", "GET", "/v1/sessions?state=old", nil).Refused(api.CodeBadRequest)
	w.Do("root", "GET", "/v1/sessions?stat=all", nil).Refused(api.CodeBadRequest)
	w.Do("root", "GET", "/v1/sessions?state=all&state=live", nil).Refused(api.CodeBadRequest)
	w.Do("root", "GET", "/v1/sessions/nobody", nil).Refused(api.CodeNotFound)
	w.Do("user", "GET", "/v1/sessions/"+b.ID, nil).Refused(api.CodeNotFound)
	w.Do("user", "GET", "/v1/sessions/b", nil).Refused(api.CodeNotFound)
	// A session of that name is found: its user does not learn that it is another's id.
	mine := w.Session("user", 106, api.NewSession{Name: b.ID})
	if s := daemontest.Get[api.Session](w, "user", "/v1/sessions/"+b.ID); s.ID != mine.ID {
		t.Errorf("found %+v", s)
	}
	w.Session("else", 105, api.NewSession{Name: "a"})
	e := w.Do("root", "GET", "/v1/sessions/a", nil).Refused(api.CodeAmbiguous)
	if len(e.Items) != 2 || e.Items[0].ID != a.ID {
		t.Errorf("%+v", e)
	}
	if s := daemontest.Get[api.Session](w, "user", "/v1/sessions/a"); s.ID != a.ID {
		t.Errorf("user's a is %+v", s)
	}
}

// TestNamesOfOthers: no other user, member or not, can take root's name for a session
// away from root.
func TestNamesOfOthers(t *testing.T) {
	w := daemontest.New(t)
	job := w.Session("root", 100, api.NewSession{Name: "job"})
	w.K.Fork(100, 101, "lngtest-member")
	w.K.Edit(101, func(p *kerneltest.Proc) { p.UID = 1000 })
	w.K.Fork(101, 102, "lngtest-child")
	w.K.Fork(101, 103, "lngtest-child")
	for pid, parent := range map[uint32]uint32{101: 100, 102: 101, 103: 101} {
		w.Proc(pid, parent, 1000, "lngtest-member")
	}
	nest := func(pid int, name string) daemontest.Reply {
		return w.Do("101", "POST", "/v1/sessions", api.NewSession{Name: name, Root: api.Ref{PID: pid}})
	}
	nest(102, "job").Refused(api.CodeBusyName)
	daemontest.Into[api.Session](nest(102, "inner"), http.StatusCreated)
	w.Do("102", "POST", "/v1/sessions", api.NewSession{Name: "job", Root: api.Ref{PID: 103}}).Refused(api.CodeDenied) // not its child
	w.Fork(102, 104, 1000, "lngtest-deep")
	w.Do("102", "POST", "/v1/sessions", api.NewSession{Name: "job", Root: api.Ref{PID: 104}}).Refused(api.CodeBusyName)

	w.Session("user", 110, api.NewSession{Name: "job"})
	if s := daemontest.Get[api.Session](w, "root", "/v1/sessions/job"); s.ID != job.ID {
		t.Errorf("root's job is %+v", s)
	}
	w.Do("reader", "GET", "/v1/sessions/job", nil).Refused(api.CodeAmbiguous)
}

func TestNoSuchRoute(t *testing.T) {
	w := daemontest.New(t)
	for _, r := range []string{"GET /", "GET /v2/sessions", "DELETE /", "GET /v1/sessions/"} {
		method, path, _ := strings.Cut(r, " ")
		w.Do("root", method, path, nil).Refused(api.CodeNotFound)
	}
	for r, allow := range map[string]string{
		"DELETE /v1/sessions": "GET, HEAD, POST", "POST /v1/version": "GET, HEAD", "PUT /v1/sessions/x": "GET, HEAD", "GET /v1/keep": "POST",
	} {
		method, path, _ := strings.Cut(r, " ")
		a := w.Do("root", method, path, nil)
		a.Refused(api.CodeMethod)
		if got := a.Header.Get("Allow"); got != allow {
			t.Errorf("%s: Allow %q, want %q", r, got, allow)
		}
	}
}

func TestMalformedBody(t *testing.T) {
	w := daemontest.New(t)
	for text, want := range map[string]string{
		"bogus":                "invalid body: not JSON at byte 1",
		`{"name":`:             "invalid body: not JSON at byte 8",
		"[]":                   "invalid body: must be an object, not a JSON array",
		`{"name":1}`:           "invalid name: not for a JSON number",
		`{"root":{"pid":"x"}}`: "invalid root.pid: not for a JSON string",
	} {
		if e := w.Do("user", "POST", "/v1/sessions", text).Refused(api.CodeBadRequest); e.Message != want {
			t.Errorf("%s: %s, want %s", text, e.Message, want)
		}
	}
}

func TestSlowSenders(t *testing.T) {
	w := daemontest.New(t, func(w *daemontest.Daemon) { w.Host.Limits.Send = 50 * time.Millisecond })
	for name, text := range map[string]string{
		"headers": "GET /v1/version HTTP/1.1\r\nHost:",
		"body":    "POST /v1/policy/resume HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
	} {
		c, err := w.Dial("root")
		require.NoError(t, err)
		io.WriteString(c, text)
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		// A daemon that closes it before it has read the text makes the read fail.
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays open: %v", name, err)
		}
		c.Close()
	}
}

// TestLostCaller: the process that connected died; its connection gives no rights to
// the process that has it now.
func TestLostCaller(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{})
	w.Add(120, daemontest.Shell, 1000, "lngtest-brief")
	ask := func(c io.ReadWriter, path string) int {
		t.Helper()
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	c, err := w.Dial("120")
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, ask(c, "/v1/sessions/"+s.ID), http.StatusOK)
	w.K.Exit(120, 0)
	require.Equal(t, ask(c, "/v1/sessions/"+s.ID), http.StatusForbidden)
	w.Add(120, daemontest.Shell, 0, "lngtest-reuser")
	if got := ask(c, "/v1/sessions/"+s.ID); got != http.StatusForbidden {
		t.Errorf("its PID reused by root: status %d", got)
	}
	require.Equal(t, ask(c, "/v1/version"), http.StatusOK)
	w.K.Fail("Lookup", errors.New("broken"))
	w.Do("root", "GET", "/v1/sessions/"+s.ID, nil).Refused(api.CodeDenied)
}

func TestStop(t *testing.T) {
	w := daemontest.New(t)
	w.Session("user", 100, api.NewSession{})
	w.Do("root", "POST", "/v1/daemon/stop", api.StopRequest{Unload: true}).Refused(api.CodeLiveSessions)
	daemontest.Into[api.Head](w.Do("root", "POST", "/v1/daemon/stop", api.StopRequest{}), http.StatusAccepted)
	w.Halt()
	if all, _ := w.K.Sessions(); len(all) != 1 || all[0].State != tracer.StateActive || len(w.K.Signals()) != 0 {
		t.Errorf("sessions %+v, signals %v", all, w.K.Signals())
	}
}
