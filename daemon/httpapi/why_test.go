//go:build linux

package httpapi_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

func TestWhyHeldErrors(t *testing.T) {
	w := daemontest.New(t)
	w.Add(200, daemontest.Shell, 1000, "lngtest-x")
	for path, want := range map[string]string{
		"?port=0": api.CodeBadRequest, "?port=65536": api.CodeBadRequest, "?port=x": api.CodeBadRequest,
		"?port=80&proto=sctp": api.CodeBadRequest, "?port=80&ref=200": api.CodeBadRequest, "?": api.CodeBadRequest,
		"?proto=tcp": api.CodeBadRequest, "?path=etc": api.CodeBadRequest, "?path=/x&inode=5": api.CodeBadRequest,
		"?path=/x&inode=5&device=y": api.CodeBadRequest, "?path=/x&port=80": api.CodeBadRequest, "?ref=200&proto=tcp": api.CodeBadRequest,
		"?port=80": api.CodeNotFound, "?path=/x": api.CodeNotFound, "?path=/x&inode=5&device=6": api.CodeNotFound,
	} {
		w.Do("root", "GET", "/v1/why"+path, nil).Refused(want)
	}
	w.Do("away", "GET", "/v1/why?port=80", nil).Refused(api.CodePIDNamespace)
}

// TestWhyAccess: a holder is named to callers that may read that process.
func TestWhyAccess(t *testing.T) {
	w := daemontest.New(t)
	w.Add(200, daemontest.Shell, 1000, "lngtest-x")
	proc := string(w.Host.Proc)
	for name, to := range map[string]string{"200/fd/3": "/data/db", "200/ns/mnt": "mnt:[1]", "self/ns/mnt": "mnt:[1]"} {
		os.MkdirAll(filepath.Dir(filepath.Join(proc, name)), 0o700)
		require.NoError(t, os.Symlink(to, filepath.Join(proc, name)))
	}
	for name, text := range map[string]string{"200/fdinfo/3": "flags:\t01\n", "200/task/200/x": "", "locks": ""} {
		os.MkdirAll(filepath.Dir(filepath.Join(proc, name)), 0o700)
		os.WriteFile(filepath.Join(proc, name), []byte(text), 0o600)
	}
	for who, want := range map[string]string{"root": "", "user": "", "reader": "", "else": api.CodeDenied} {
		a := w.Do(who, "GET", "/v1/why?path=/data/db", nil)
		if want != "" {
			if e := a.Refused(want); strings.Contains(e.Message, "200") {
				t.Errorf("it names the holder: %+v", e)
			}
			continue
		}
		h := daemontest.Into[api.Holders](a, http.StatusOK)
		if len(h.Items) != 1 || h.Items[0].Process.PID != 200 || h.Items[0].Holds.Files[0].Access != "write" {
			t.Errorf("%s: %+v", who, h)
		}
	}
}

// TestWhyKilled: root learns who killed a process in no session, also if another one has its PID now; others do not.
func TestWhyKilled(t *testing.T) {
	w := daemontest.New(t)
	w.Add(300, daemontest.Shell, 1000, "lngtest-x")
	var dead tracer.Identity
	w.K.Edit(300, func(p *kerneltest.Proc) {
		dead, p.Signal = p.Identity, &tracer.Signal{Number: 9, Sender: tracer.ByProcess, By: tracer.Identity{PID: 4}}
	})
	w.K.Exit(300, 9)
	w.Do("user", "GET", "/v1/why?ref=300", nil).Refused(api.CodeNotFound)
	why := daemontest.Get[api.Why](w, "root", "/v1/why?ref=300")
	if p := why.Process; p.Killer == nil || p.Killer.Process.PID != 4 || p.Signal != "SIGKILL" || p.State != api.StateExited || why.Other != nil {
		t.Errorf("%+v", p)
	}
	w.Do("root", "GET", "/v1/why?ref=300@5", nil).Refused(api.CodeNotFound)
	w.Add(300, daemontest.Shell, 1000, "lngtest-y")
	why = daemontest.Get[api.Why](w, "root", "/v1/why?ref=300")
	if why.Process.State != api.StateLive || why.Other == nil || why.Other.Ref != document.Ref(dead) {
		t.Errorf("%+v", why)
	}
	require.Equal(t, daemontest.Get[api.Why](w, "user", "/v1/why?ref=300").Other, nil)
	named := daemontest.Get[api.Why](w, "root", "/v1/why?ref="+why.Other.Ref.String())
	require.Equal(t, named.Process.Ref, why.Other.Ref)
}
