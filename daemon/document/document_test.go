package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// user gets the command lines of one uid, everyone those of all, and guest gets each argument as
// a dot.
type user uint32

func (u user) Argv(uid uint32, argv []string) []string {
	if uint32(u) != uid {
		return nil
	}
	return argv
}

type everyone struct{}

func (everyone) Argv(_ uint32, argv []string) []string { return argv }

type guest struct{}

func (guest) Argv(_ uint32, argv []string) []string { return slices.Repeat([]string{"."}, len(argv)) }

type running map[uint32]lineage.ID

func (r running) Identify(pid uint32) (lineage.ID, error) {
	if id, ok := r[pid]; ok {
		return id, nil
	}
	return lineage.ID{}, errors.New("no such process")
}

const session = lineage.SessionID(7)<<32 | 1

var zero = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func id(pid uint32) lineage.ID { return lineage.ID{PID: pid, Start: uint64(pid) * 10} }

// family is root 100, which the shell 9 started, its child 101, killed by SIGKILL, and
// the child of that, 102, which is an orphan with parent 1. All of them are of uid 5.
func family() Encoder {
	g := lineage.New(lineage.Options{})
	for _, e := range []lineage.Event{
		{Type: lineage.Birth, Time: 1000, ID: id(100), Evidence: lineage.Root, Source: uint8(tracer.SourceSocket), Creator: id(9),
			Parent: id(9), Looks: lineage.Looks{Comm: lineage.CommOf("agent")}},
		{Type: lineage.Exec, Time: 1001, ID: id(100), Looks: lineage.Looks{Comm: lineage.CommOf("agent")}, Exe: []byte("/bin/agent"), Argv: []byte("agent\x00-x\x00")},
		{Type: lineage.Birth, Time: 1010, ID: id(101), Evidence: lineage.Fork, Creator: id(100), Parent: id(100), Looks: lineage.Looks{Comm: lineage.CommOf("agent")}},
		{Type: lineage.Birth, Time: 1020, ID: id(102), Evidence: lineage.Fork, Creator: id(101), Parent: id(101), Looks: lineage.Looks{Comm: lineage.CommOf("agent")}},
		{Type: lineage.Exit, Time: 1030, ID: id(101), Status: 9, CPUTime: 5e8, MaxRSS: 6},
		{Type: lineage.Reparent, Time: 1030, ID: id(102), From: id(101), Parent: id(1)},
		{Type: lineage.Reaped, Time: 1031, ID: id(101)},
	} {
		e.Session, e.UID = session, 5
		g.Apply(&e)
	}
	return Encoder{Graph: g, Clock: Fixed(zero), Kernel: running{9: id(9)}}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

// same compares documents, regardless of the order of their fields.
func same(t *testing.T, got any, want string) {
	t.Helper()
	var g, w any
	require.NoError(t, errors.Join(json.Unmarshal([]byte(text(t, got)), &g), json.Unmarshal([]byte(want), &w)))
	if !reflect.DeepEqual(g, w) {
		t.Errorf("got  %s\nwant %s", text(t, got), want)
	}
}

func (e Encoder) node(t *testing.T, pid uint32) *lineage.Node {
	t.Helper()
	n, ok := e.Graph.Node(id(pid))
	if !ok {
		t.Fatalf("no node %d", pid)
	}
	return &n
}

func TestProcess(t *testing.T) {
	e := family()
	same(t, e.Process(e.node(t, 101), user(5)), `{"pid":101,"start_ns":"1010","session":"000007","comm":"agent","exe":"/bin/agent","argv":["agent","-x"],"uid":5,"state":"exited",`+
		`"creator":{"pid":100,"start_ns":"1000"},"parent":{"pid":100,"start_ns":"1000"},"started":"2026-01-02T03:04:05.00000101Z","exited":"2026-01-02T03:04:05.00000103Z",`+
		`"signal":"SIGKILL","cpu_seconds":0.5,"evidence":{"kind":"fork","confidence":"strong"}}`)
	same(t, e.Process(e.node(t, 102), user(6)), `{"pid":102,"start_ns":"1020","session":"000007","comm":"agent","exe":"/bin/agent","uid":5,"state":"live",`+
		`"creator":{"pid":101,"start_ns":"1010"},"parent":{"pid":1,"start_ns":"10"},"orphan":true,"started":"2026-01-02T03:04:05.00000102Z",`+
		`"evidence":{"kind":"fork","confidence":"strong"}}`)
	if p := e.Process(e.node(t, 9), everyone{}); p.State != "" || p.UID != nil || p.Session != "" {
		t.Errorf("of a process that was only named: %+v", p)
	}
	z := e.node(t, 102)
	if z.State, z.Use.RSS = lineage.Zombie, 8<<20; e.Process(z, everyone{}).RSSBytes != 0 {
		t.Error("a zombie holds no memory")
	}
	if ev := e.Process(e.node(t, 100), everyone{}).Evidence; ev.Source != "socket" || ev.Confidence != "weak" {
		t.Errorf("%+v", ev)
	}
}

func TestRefs(t *testing.T) {
	require.Equal(t, ID(Ref(id(3))), id(3))
	if r := RefOrNil(lineage.ID{}); r != nil {
		t.Error(r)
	}
}

func TestExit(t *testing.T) {
	for status, want := range map[uint32]string{0: "0 ", 3 << 8: "3 ", 9: "nil SIGKILL", 11 | 0x80: "nil SIGSEGV", 40: "nil SIGRTMIN+6", 70: "nil signal 70"} {
		code, signal := Exit(status)
		got := "nil " + signal
		if code != nil {
			got = fmt.Sprintf("%d %s", *code, signal)
		}
		if got != want {
			t.Errorf("%#x: %q, want %q", status, got, want)
		}
	}
}
