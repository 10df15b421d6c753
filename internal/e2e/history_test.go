//go:build linux

package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // to read the daemon's file

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// historyFile is where the daemon of an instance keeps its history.
func historyFile(i *stage.Instance) string { return filepath.Join(i.Socket+".state", "history.db") }

// written waits until the file has a session of that name for which holds is true: a
// daemon killed earlier would not have stored it.
func written(i *stage.Instance, name, holds string) {
	i.T.Helper()
	u := url.URL{Scheme: "file", Path: historyFile(i), RawQuery: "mode=ro&_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", u.String())
	require.NoError(i.T, err)
	defer db.Close()
	i.Until("row of "+name, func() bool {
		n := 0
		require.NoError(i.T, db.QueryRow("SELECT count(*) FROM sessions WHERE name = ? AND "+holds, name).Scan(&n))
		return n == 1
	})
}

// has reports whether a live process of the tree has the name. Then its exec is in the
// history before anything later.
func has(tree *api.Tree, comm string) bool {
	return slices.ContainsFunc(tree.Nodes, func(n api.Node) bool { return n.State == "live" && n.Comm == comm })
}

// session runs a shell that leaves a daemonised sleep behind, to its end. It waits
// until the sleep is sleeping: its name appears before its exec is over.
func session(i *stage.Instance, name string) {
	i.T.Helper()
	m := stage.NewMarker(i.T, i.Dir)
	script := fmt.Sprintf(`exec 9>%s; setsid sleep 300 & until read s </proc/$!/stat && [ "${s#*(sleep) S}" != "$s" ]; do :; done; exit 3`, m.Path)
	if p := i.Lineage("run", "-q", "--name", name, "--grace", "0s", "--", "sh", "-c", script, "--password", "hunter2"); p.Code() != 3 {
		i.T.Fatal(p)
	}
	m.MustBeGone()
}

// The next daemon reports what a killed daemon knew about ended sessions: the list, the
// receipt, the processes and the events.
func TestHistory(t *testing.T) {
	i := stage.New(t)
	daemon := i.Daemon()
	session(i, "first")
	m := stage.NewMarker(t, i.Dir)
	run := i.Run(m, []string{"--name", "second", "--grace", "60s"}, "ignoreterm")
	m.Ready()
	i.Until("exec", func() bool { return has(stage.Query[api.Tree](i, "tree", "second"), "lngtest-ignoret") })
	// Its end is requested under one daemon, and carried out under the next.
	end := i.Start([]string{"end", "--yes", "second"}, nil)
	written(i, "second", "ended IS NULL AND instr(state, '\"ended_by\"') > 0")
	written(i, "first", "ended IS NOT NULL")
	daemon.Stop()
	end.Stop()
	i.Daemon()
	i.Finish(m, run, "--now", "second")

	list := stage.Query[api.Sessions](i, "history")
	var names []string
	for _, s := range list.Items {
		names = append(names, s.Name)
		if s.State != "ended" || s.Verdict != "clean" || s.Ended == nil || s.Started == nil || s.Ended.Before(*s.Started) {
			t.Errorf("%+v", s)
		}
	}
	if !slices.Equal(names, []string{"second", "first"}) {
		t.Fatalf("history has %v", names)
	}
	first := stage.Query[api.Past](i, "history", "first")
	at := slices.IndexFunc(first.Nodes, func(n api.Node) bool { return n.Comm == "sleep" })
	if at < 0 || first.Report.EndReason != "root_exit" || !first.Report.ConfirmedEmpty || first.Nodes[at].Signal != "SIGKILL" || fmt.Sprint(first.Nodes[at].Argv) != "[sleep 300]" {
		t.Fatalf("%+v %+v", first.Report, first.Nodes)
	}
	if root := first.Session.Root; root == nil ||
		!slices.Equal(root.Argv[len(root.Argv)-2:], []string{"--password", "[redacted]"}) {
		t.Errorf("root %+v", root)
	}
	second := stage.Query[api.Past](i, "history", "second")
	by := second.Report.EndedBy
	if by == nil || by.PID != end.Process.Pid || by.Comm != "lineage" || second.Report.EndReason != "end" {
		t.Errorf("ended by %+v, want pid %d: %+v", by, end.Process.Pid, second.Report)
	}

	// The old names, in the old order; the stream ends automatically.
	var events strings.Builder
	for line := range strings.Lines(i.Must("events", "-o", "jsonl", "--since", "10m", "--until", "0s").Out.String()) {
		var ev api.Event
		require.NoError(t, json.Unmarshal([]byte(line), &ev))
		fmt.Fprintf(&events, "%s%s%s", ev.Type, ev.State, ev.Reason)
		if ev.Process != nil {
			fmt.Fprintf(&events, ":%s", ev.Process.Comm)
		}
		events.WriteString(" ")
	}
	if order := regexp.MustCompile("exec:sh .*exec:sleep .*sessionended.*exec:lngtest-ignoret .*until $"); !order.MatchString(events.String()) {
		t.Errorf("not in the order of %s: %s", order, &events)
	}

	files, err := filepath.Glob(historyFile(i) + "*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err != nil || strings.Contains(string(b), "hunter2") {
			t.Errorf("%s has the secret: %v", f, err)
		}
		if st, err := os.Stat(f); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f, st.Mode(), err)
		}
	}
}
