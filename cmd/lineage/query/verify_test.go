//go:build linux

package query_test

import (
	"context"
	"database/sql"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // to edit the daemon's file

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/cmd/lineage/query"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m)) }

// TestForgotten: a session that the history lets go while its receipts are read is left out, as all older ones are.
func TestForgotten(t *testing.T) {
	c := &apitest.Client{}
	c.On.Report = func(_ context.Context, id string, _ time.Duration) (*api.Report, error) {
		if id == "old" {
			return nil, api.NewError(api.CodeNotFound, "session old not found", "")
		}
		return &api.Report{Session: id, Verdict: api.VerdictClean, ConfirmedEmpty: true}, nil
	}
	c.On.Policy = func() (*api.Policy, error) { return &api.Policy{}, nil }
	ended := &api.Sessions{Items: []api.Session{{ID: "new", Verdict: api.VerdictClean}, {ID: "old"}}}
	v, err := query.Verify(t.Context(), c, ended, func() ([]access.AuditFile, func(), error) { return nil, func() {}, nil }, access.ChainHead{}, time.Now())
	require.NoError(t, err)
	if v.Receipts != 1 || len(v.Findings) != 0 {
		t.Errorf("%+v", v)
	}
}

// The last line says only what was checked.
func TestLastLine(t *testing.T) {
	for want, v := range map[string]api.Verification{
		"nothing was changed, nothing is missing":                         {},
		"nothing was changed in what the log has":                         {Lost: 2},
		"nothing was changed in what could be compared; 3 ends could not": {Unchecked: 3, Older: 1},
		"nothing was changed in the log; the history is not complete":     {Unchecked: 3, Degraded: []string{"x"}},
		"receipt x: the audit log has no such end":                        {Unchecked: 3, Findings: []string{"receipt x: the audit log has no such end"}},
	} {
		var b strings.Builder
		p := text.NewPage(&b, time.Time{})
		query.VerificationText(&v).Text(p)
		require.NoError(t, p.Flush())
		if lines := strings.Split(strings.TrimSpace(b.String()), "\n"); !strings.HasPrefix(lines[len(lines)-1], want) {
			t.Errorf("%q, want %q", lines, want)
		}
	}
}

// checked is what a check of a daemon's records finds, with what is degraded.
func checked(w *daemontest.Daemon) string {
	w.Helper()
	c, err := api.Dial(w.Context(), w.Socket)
	require.NoError(w, err)
	defer c.Close()
	ended, err := c.History(w.Context(), api.HistoryQuery{Limit: api.MaxPage})
	require.NoError(w, err)
	v, err := query.Verify(w.Context(), c, ended, func() ([]access.AuditFile, func(), error) { return access.OpenAuditFiles(w.Instance.Audit) },
		access.ChainHead{}, time.Now().Add(time.Minute))
	require.NoError(w, err)
	return strings.Join(append(v.Findings, v.Degraded...), "\n")
}

// edit changes a history that no daemon writes now, and makes the checksums of its sessions right again.
func edit(t *testing.T, path, how string) {
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	for _, q := range strings.Split(how, ";;") {
		_, err = db.Exec(strings.NewReplacer("SET $.", "SET report = json_set(CAST(report AS TEXT), '$.",
			"DOC $.", "SET doc = json_set(CAST(doc AS TEXT), '$.").Replace(q))
		require.NoError(t, err)
	}
	if strings.Contains(how, "sum = 1") {
		return
	}
	rows, err := db.Query(`SELECT id, concat_ws(char(0), boot, id, word, name, uid, parent, zero, started, coalesce(ended, '<nil>'),
		CAST(doc AS TEXT), coalesce(CAST(report AS TEXT), ''), coalesce(CAST(state AS TEXT), ''), '') FROM sessions`)
	if err != nil {
		return // there are none
	}
	sums := map[int64]uint32{}
	for rows.Next() {
		var id int64
		var row string
		require.NoError(t, rows.Scan(&id, &row))
		sums[id] = crc32.ChecksumIEEE([]byte(row))
	}
	rows.Close()
	for id, sum := range sums {
		_, err := db.Exec("UPDATE sessions SET sum = ? WHERE id = ?", sum, id)
		require.NoError(t, err)
	}
}

// Each edit of the history is found, but for what no receipt has.
func TestHistoryEdits(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"), func(d *daemontest.Daemon) {
		d.Host.Clock.Clock = func() time.Time { return time.Now().Add(-d.K.Now()) }
	})
	for pid := uint32(100); pid < 140; pid += 10 {
		s := w.Session("user", pid, api.NewSession{GraceMS: daemontest.MS(0)})
		w.K.Fork(pid, pid+1, "lngtest-child")
		w.K.Exec(pid+1, "/bin/lngtest-child", "child\x00--token=hunter2\x00")
		w.End("user", s.ID)
		w.Until(func() bool { // a record is written a moment later; the next receipts have the head
			return w.Status().AuditHead != "" && strings.Count(w.Audit(), `"report":`) == int(pid/10)-9
		})
	}
	require.Equal(t, checked(w), "")
	w.Halt()
	state, kept := w.Socket+".state", filepath.Join(w.Dir, "kept")
	require.NoError(t, os.CopyFS(kept, os.DirFS(state)))
	file := filepath.Join(state, "history.db")
	write := func(name string, at int64, text string) func() error {
		return func() error {
			f, err := os.OpenFile(file+name, os.O_WRONLY|os.O_CREATE, 0o600)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte(text), at)
			return errors.Join(err, f.Close())
		}
	}
	const pick = "(SELECT max(id) FROM sessions WHERE instr(CAST(report AS TEXT), 'audit_head'))"
	const one, other = " WHERE id = " + pick, "(SELECT max(id) FROM sessions WHERE id != " + pick + ")"
	const gone, changed, misfit = "the history has no receipt of this end", "it was changed since record", "it does not fit its session"
	const aside, memory, unread = "the previous one was set aside", "history is kept in memory only", "read receipt of session"
	const nothing = "" // is found: the receipt does not have it, or it means the same
	for _, e := range []struct {
		what string
		how  any // SQL, or what changes the file
		want string
	}{
		{"none", "", nothing},
		{"row deleted", "DELETE FROM sessions" + one, gone},
		{"all rows deleted", "DELETE FROM sessions", gone},
		{"file deleted", func() error { return os.Remove(file) }, gone},
		{"file emptied", func() error { return os.Truncate(file, 0) }, gone},
		{"checksum", "UPDATE sessions SET sum = 1" + one, gone},
		{"end_reason", "UPDATE sessions SET $.end_reason', 'idle')" + one, misfit},
		{"end_reason in both", "UPDATE sessions SET $.end_reason', 'idle')" + one + ";;UPDATE sessions DOC $.end_reason', 'idle')" + one, changed},
		{"requester", "UPDATE sessions SET $.ended_by.uid', 7)" + one, changed},
		{"name of a killed process", "UPDATE sessions SET $.processes[0].comm', 'other')" + one, changed},
		{"command of a killed process", "UPDATE sessions SET $.processes[0].argv[0]', 'other')" + one, changed},
		{"session's name", "UPDATE sessions SET $.name', 'other')" + one + ";;UPDATE sessions DOC $.name', 'other')" + one, changed},
		{"control characters", "UPDATE sessions SET $.name', char(27) || '[2J')" + one, misfit},
		{"uid", "UPDATE sessions DOC $.uid', 1001)" + one, changed},
		{"time of the end", "UPDATE sessions SET $.ended', strftime('%Y-%m-%dT%H:%M:%SZ', ended / 1000000000 + 1, 'unixepoch'))" + one, changed},
		{"time of the end, by far", "UPDATE sessions SET $.ended', '2026-01-01T00:00:00Z')" + one, gone},
		{"ended removed", "UPDATE sessions SET $.ended', null)" + one, gone},
		{"end not written", "UPDATE sessions SET ended = NULL, report = NULL" + one, nothing}, // as by a daemon that is killed: the log has it
		{"audit_head removed", "UPDATE sessions SET $.audit_head', '')" + one, changed},
		{"audit_head damaged", "UPDATE sessions SET $.audit_head', 'x')" + one, "the record of the audit log that it names cannot be read"},
		{"verdict", "UPDATE sessions SET $.verdict', 'unknown')" + one, misfit},
		{"verdict in both", "UPDATE sessions SET $.verdict', 'unknown')" + one + ";;UPDATE sessions DOC $.verdict', 'unknown')" + one, "and the audit log clean"},
		{"counts", "UPDATE sessions SET $.started', 9)" + one, "it says clean: 9 started"},
		{"count of the kernel", "UPDATE sessions SET $.counted.live', 1)" + one, "the kernel counted 1 live"},
		{"processes removed", "UPDATE sessions SET $.processes', json('[]'))" + one, "it counts 2 killed, and names 0"},
		{"process named twice", "UPDATE sessions SET $.processes[0]', json_extract(CAST(report AS TEXT), '$.processes[1]'))" + one, changed},
		{"two receipts exchanged", "UPDATE sessions SET report = (SELECT report FROM sessions WHERE id = " + other + ")" + one, misfit},
		{"forged session", "INSERT INTO sessions SELECT boot, 9, 'forged', name, uid, parent, zero, started, ended, replace(doc, word, 'forged'), json_set(replace(report, word, 'forged'), '$.ended', strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '1 seconds')), state, 0 FROM sessions" + one,
			"receipt forged: the audit log has no such end"},
		{"no report", "UPDATE sessions SET report = NULL" + one, unread},
		{"report is no JSON", "UPDATE sessions SET report = '{'" + one, unread},
		{"report too deep", "UPDATE sessions SET report = replace(printf('%1000000d', 0), ' ', '[')" + one, unread},
		{"session is no JSON", "UPDATE sessions SET doc = '{'" + one, gone},
		{"header", write("", 0, "no database"), aside},
		{"trigger", "CREATE TRIGGER t AFTER INSERT ON sessions BEGIN DELETE FROM sessions; END", aside},
		{"link", func() error { return os.Link(file, file+".link") }, memory},
		{"symbolic link", func() error { return errors.Join(os.Rename(file, file+".link"), os.Symlink(file+".link", file)) }, memory},
		{"FIFO", func() error { return errors.Join(os.Remove(file), unix.Mkfifo(file, 0o600)) }, memory},
		{"other owner", func() error { return os.Chown(file, 1, 1) }, memory},
		{"garbage in the WAL", write("-wal", 0, "garbage"), nothing},
		{"30 MB of spaces", "UPDATE sessions SET report = report || printf('%30000000s', '')" + one, nothing},
		{"delegated work", `UPDATE sessions SET $.delegated', json('[{"broker":"tmux","state":"attributed"}]'))` + one, nothing},
		{"events and processes deleted", "DELETE FROM events;;DELETE FROM processes", nothing},
		{"time of the beginning", "UPDATE sessions DOC $.started', '2026-01-01T00:00:00Z')" + one, nothing},
		{"command of the session", "UPDATE sessions DOC $.root.argv', json('[\"other\"]'))" + one, nothing},
	} {
		if e.what == "other owner" && os.Geteuid() != 0 {
			continue
		}
		require.NoError(t, os.RemoveAll(state))
		require.NoError(t, os.CopyFS(state, os.DirFS(kept)))
		if change, ok := e.how.(func() error); ok {
			require.NoError(t, change())
		} else {
			edit(t, file, e.how.(string))
		}
		w.Start()
		t.Logf("%s, want %q", e.what, e.want)
		w.Until(func() bool { // the daemon writes what it has taken from the log, and sets files aside, a moment later
			found := checked(w)
			return (found == "") == (e.want == "") && strings.Contains(found, e.want)
		})
		w.Halt()
	}
}
