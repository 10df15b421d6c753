//go:build linux

package access

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func end(session string) AuditRecord {
	return AuditRecord{Verb: "end", Decision: AuditDone, Target: &AuditTarget{Session: session}, Report: &api.Report{
		Session: session, Verdict: "clean", ConfirmedEmpty: true, Processes: []api.Outcome{{Ref: api.Ref{PID: 5}, Argv: []string{"x", "--token=secret"}}},
	}}
}

func refusal(why string) AuditRecord {
	return AuditRecord{Verb: "end", Decision: AuditRefused, Reason: why}
}

// opened is a log that its own goroutine writes.
func opened(t *testing.T, path string, o AuditOptions) *AuditLog {
	t.Helper()
	l, err := OpenAudit(path, o)
	require.NoError(t, err)
	return l
}

// begun is a log that is written by drain.
func begun(t *testing.T, o AuditOptions) *AuditLog {
	t.Helper()
	l, err := begin(filepath.Join(t.TempDir(), "a"), o)
	require.NoError(t, err)
	return l
}

// records reads a log; every line must be a record.
func records(t *testing.T, path string) (all []AuditRecord) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var r AuditRecord
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatalf("%q: %v", s.Text(), err)
		}
		all = append(all, r)
	}
	return all
}

// found reads a log with its older files.
func found(t *testing.T, path string) *api.Verification {
	t.Helper()
	files, done, err := OpenAuditFiles(path)
	require.NoError(t, err)
	defer done()
	v, err := VerifyAudit(files, nil, AuditExpect{})
	require.NoError(t, err)
	return v
}

// verified reads it: no record was changed, none is missing. It gives their number and the newest head.
func verified(t *testing.T, path string) (int, string) {
	t.Helper()
	v := found(t, path)
	if len(v.Findings) != 0 {
		t.Errorf("%q", v.Findings)
	}
	return v.Records, v.Newest
}

func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log", "audit.jsonl")
	l := opened(t, path, AuditOptions{})
	l.Add(end("k3x9q2"))
	l.Add(refusal("it belongs to uid 1001"))
	require.NoError(t, l.Close())
	all := records(t, path)
	if len(all) != 2 || all[0].Seq != 1 || all[1].Seq != 2 || all[0].Report.Verdict != "clean" || all[1].Reason == "" {
		t.Errorf("%+v", all)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	if b, _ := os.ReadFile(path); strings.Contains(string(b), "secret") {
		t.Errorf("command lines are in it: %s", b)
	}
	// The next daemon continues after the half line of a killed one.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	f.WriteString(`{"seq":"9`)
	f.Close()
	l = opened(t, path, AuditOptions{})
	l.Add(refusal("x"))
	l.Close()
	b, _ := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	var r AuditRecord
	if len(lines) != 4 || json.Unmarshal([]byte(lines[3]), &r) != nil || r.Seq != 3 {
		t.Errorf("%s", b)
	}
	if n, _ := verified(t, path); n != 3 {
		t.Errorf("%d records", n)
	}
}

// The head is the newest record that is synced, before and after a restart: refusals are synced with the
// next end only.
func TestHead(t *testing.T) {
	l := begun(t, AuditOptions{})
	heads := []string{l.Head().String()}
	for _, r := range []AuditRecord{refusal("x"), end("k3x9q2"), refusal("y")} {
		l.Add(r)
		l.drain()
		heads = append(heads, l.Head().String())
	}
	l.file.Close()
	_, newest := verified(t, l.path)
	again, err := begin(l.path, AuditOptions{})
	require.NoError(t, err)
	defer again.file.Close()
	if heads[0] != "" || heads[1] != "" || !strings.HasPrefix(heads[2],
		"2:") || heads[3] != heads[2] || again.Head().String() != newest || !strings.HasPrefix(newest, "3:") {
		t.Errorf("%q, then %v, newest %s", heads, again.Head(), newest)
	}
}

func TestRotation(t *testing.T) {
	l := begun(t, AuditOptions{MaxBytes: 600, Keep: 3})
	path := l.path
	const total = 40
	for i := range total {
		l.Add(refusal(fmt.Sprint(i, strings.Repeat("x", 80))))
		l.drain()
	}
	l.file.Close()
	for _, name := range []string{path, path + ".1", path + ".2", path + ".3"} {
		if info, err := os.Stat(name); err != nil || info.Size() > 600 || info.Mode().Perm() != 0o600 || len(records(t, name)) == 0 {
			t.Errorf("%s: %+v %v", name, info, err)
		}
	}
	if _, err := os.Stat(path + ".4"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("too many are kept: %v", err)
	}
	if _, newest := verified(t, path); !strings.HasPrefix(newest, fmt.Sprint(total, ":")) {
		t.Errorf("the newest is %s", newest)
	}
	// The next daemon keeps more files, another one fewer.
	for _, keep := range []int{8, 1} {
		l, err := begin(path, AuditOptions{MaxBytes: 600, Keep: keep})
		require.NoError(t, err)
		require.NoError(t, l.rotate())
		l.Add(refusal("x"))
		l.drain()
		l.file.Close()
		verified(t, path)
		if all, _ := filepath.Glob(path + "*"); len(all) != min(5, 1+keep) {
			t.Errorf("keep %d: %q", keep, all)
		}
	}
	os.Remove(path)
	if l = opened(t, path, AuditOptions{}); l.seq == 0 {
		t.Error("after a rotation the numbers begin again")
	}
	l.Close()
}

// TestFailing: a log that cannot be written reports that, continues, and counts the
// lost records.
func TestFailing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sub", "a")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub"), nil, 0o600))
	var reported []error
	l, err := begin(path, AuditOptions{Failed: func(err error) { reported = append(reported, err) }})
	if err == nil || l.Err() == nil {
		t.Fatal("it opened")
	}
	l.Add(end("a"))
	l.Add(end("b"))
	l.drain()
	os.Remove(filepath.Join(dir, "sub"))
	l.Add(end("c"))
	l.drain()
	if len(reported) != 1 || reported[0] != nil || l.Err() != nil {
		t.Errorf("it works again, and %v", reported)
	}
	if all := records(t, path); len(all) != 1 || all[0].Lost != 2 || all[0].Seq != 3 {
		t.Errorf("%+v", all)
	}
	os.RemoveAll(filepath.Join(dir, "sub"))
	os.WriteFile(filepath.Join(dir, "sub"), nil, 0o600)
	l.Add(end("d"))
	l.drain()
	if len(reported) != 2 || reported[1] == nil {
		t.Errorf("it fails again, and %v", reported)
	}
}

// TestFullDisk: a disk without room loses whole records, says so, and holds no part of one.
func TestFullDisk(t *testing.T) {
	require.Root(t)
	dir := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8k"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	var reported []error
	l, err := begin(filepath.Join(dir, "a"), AuditOptions{Failed: func(err error) { reported = append(reported, err) }})
	require.NoError(t, err)
	const ends = 100
	for range ends {
		l.Add(end("a"))
		l.drain()
	}
	if len(reported) != 1 || reported[0] == nil || l.Err() == nil {
		t.Errorf("reported %v, error %v", reported, l.Err())
	}
	if all := records(t, l.path); len(all) == 0 || len(all) == ends || l.last.Seq != uint64(len(all)) {
		t.Errorf("%d records, the last is %d", len(all), l.last.Seq)
	}
	l.file.Close()
}

func TestQueue(t *testing.T) {
	l := begun(t, AuditOptions{})
	for range maxQueue {
		l.Add(refusal("flood"))
	}
	l.Add(end("a")) // there is room for an end
	l.drain()
	all := records(t, l.path)
	if len(all) != maxQueue/2+1 || all[len(all)-1].Report == nil || all[0].Lost != maxQueue/2 {
		t.Errorf("%d records, the last %+v, %d lost", len(all), all[len(all)-1], all[0].Lost)
	}
	l.file.Close()
}

// TestQueueBytes: while the disk does not answer, what waits for it is bounded in bytes, and no
// end is left out.
func TestQueueBytes(t *testing.T) {
	l := begun(t, AuditOptions{})
	const ends = 400
	for range ends {
		r := end("a")
		r.Report.Processes = make([]api.Outcome, maxProcesses)
		r.Report.Processes[0].Argv = make([]string, 4000)
		l.Add(r)
	}
	held := 0
	for i := range l.queue {
		held += enforcer.ReportSize(l.queue[i].Report)
	}
	if len(l.queue) != ends || held > maxWaiting || len(l.queue[0].Report.Processes) != maxProcesses {
		t.Errorf("%d records of %d bytes", len(l.queue), held)
	}
	if last := l.queue[ends-1].Report; len(last.Processes) != 0 || !last.Truncated {
		t.Errorf("the last: %+v", last)
	}
	l.drain()
	if all := records(t, l.path); len(all) != ends || l.bytes != 0 {
		t.Errorf("%d records, %d bytes wait", len(all), l.bytes)
	}
	l.file.Close()
}

func TestOthersFiles(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	os.WriteFile(target, []byte("precious"), 0o644)
	for name, make := range map[string]func(string) error{
		"symlink":   func(p string) error { return os.Symlink(target, p) },
		"hard link": func(p string) error { return os.Link(target, p) },
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, make(path))
		l, err := OpenAudit(path, AuditOptions{})
		if err == nil {
			t.Errorf("%s: opened", name)
		}
		l.Add(end("a"))
		if l.Close() == nil {
			t.Errorf("%s: written", name)
		}
		os.RemoveAll(path)
	}
	if b, _ := os.ReadFile(target); string(b) != "precious" {
		t.Errorf("overwritten: %s", b)
	}
}

// TestOlderFIFO: a FIFO in place of the older log does not block the start of the daemon.
func TestOlderFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	require.NoError(t, unix.Mkfifo(path+".1", 0o600))
	opened := make(chan error, 1)
	go func() {
		l, err := OpenAudit(path, AuditOptions{})
		opened <- errors.Join(err, l.Close())
	}()
	require.NoError(t, require.Soon(t, opened, "it blocks"))
}

// TestMoved: another program may move the file, or copy and cut it. Records follow, and their beginning is missing.
func TestMoved(t *testing.T) {
	for name, rotate := range map[string]func(path string) error{
		"moved": func(path string) error { return os.Rename(path, path+"-old") },
		"cut":   func(path string) error { return os.Truncate(path, 0) },
	} {
		l := begun(t, AuditOptions{})
		l.Add(end("a"))
		l.drain()
		require.NoError(t, rotate(l.path))
		l.Add(end("b"))
		l.drain()
		l.file.Close()
		if all := records(t, l.path); len(all) != 1 || all[0].Target.Session != "b" || l.size > 1000 {
			t.Errorf("%s: %+v, size %d", name, all, l.size)
		}
		if all := found(t, l.path).Findings; len(all) != 1 || !strings.Contains(all[0], "begins with record 2, not 1") {
			t.Errorf("%s: %q", name, all)
		}
	}
}

func TestConcurrent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	l := opened(t, path, AuditOptions{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				l.Add(end("a"))
			}
		})
	}
	wg.Wait()
	l.Close()
	all := records(t, path)
	for i, r := range all {
		if r.Seq != api.U64(i+1) {
			t.Fatalf("record %d has number %d", i, r.Seq)
		}
	}
	require.Equal(t, len(all), 200)
}

// Command lines are written if there is a function that hides their secrets.
func TestRedact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := opened(t, path, AuditOptions{Redact: policy.Default().Redact})
	r := end("k3x9q2")
	r.Report.Delegated = []api.Delegated{{Asked: &api.Process{UID: new(0), Argv: []string{"docker", "--token=secret"}}}, {}}
	l.Add(r)
	require.NoError(t, l.Close())
	all := records(t, path)
	if len(all) != 1 || len(all[0].Report.Processes[0].Argv) != 2 || strings.Contains(all[0].Report.Processes[0].Argv[1], "secret") {
		t.Errorf("%+v", all[0].Report)
	}
	if asked := all[0].Report.Delegated[0].Asked; len(asked.Argv) != 2 || strings.Contains(asked.Argv[1], "secret") {
		t.Errorf("a broker was asked: %q", asked.Argv)
	}
	if r.Report.Processes[0].Argv[1] != "--token=secret" || r.Report.Delegated[0].Asked.Argv[1] != "--token=secret" {
		t.Error("the receipt itself was changed")
	}
}

// TestLongRecord: what members run and lock does not push the records of others out of the log.
func TestLongRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := opened(t, path, AuditOptions{Redact: policy.Default().Redact})
	r := end("k3x9q2")
	long, zombies := strings.Repeat("\x01", 4094), 4096
	for n := range maxProcesses {
		p := api.Outcome{Ref: api.Ref{PID: 5, StartNS: 1 << 50}, Comm: long[:15], Outcome: api.OutcomeKill}
		if n < 70 { // more than maxRecord
			p.Argv = []string{long}
			r.Report.LocksHeld = append(r.Report.LocksHeld, api.Lock{Path: long})
		}
		r.Report.Processes = append(r.Report.Processes, p)
	}
	r.Report.Zombies = slices.Repeat([]api.Zombie{{Comm: long[:15]}}, zombies)
	l.Add(r)
	require.NoError(t, l.Close())
	b, err := os.ReadFile(path)
	if err != nil || len(b) > 2*maxRecord {
		t.Fatalf("%d bytes: %v", len(b), err)
	}
	var got AuditRecord
	if err := json.Unmarshal(b, &got); err != nil || got.Report.Verdict != "clean" || len(got.Report.Processes) != maxProcesses || !got.Report.Truncated {
		t.Errorf("%+v: %v", got.Report, err)
	}
	if len(r.Report.Zombies) != zombies || r.Report.Truncated {
		t.Error("the receipt itself was changed")
	}
}
