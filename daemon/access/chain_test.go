package access_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// log makes a log of n records, every other one of an end, and the heads of all records. Record 5 says that rotation
// has left none before it.
func log(n int) (lines [][]byte, heads []access.ChainHead, receipts []*api.Report) {
	var last access.ChainHead
	for i := range n {
		ended := time.Date(2026, 1, 2, 3, 4, i, 0, time.UTC)
		r := map[string]any{"seq": fmt.Sprint(i + 1), "prev": last.Hash, "time": ended, "verb": "end"}
		if i == 4 {
			r["oldest"] = "5"
		}
		if i%2 == 1 {
			report := &api.Report{Session: fmt.Sprintf("s%d", i), Ended: &ended, Verdict: api.VerdictClean, ConfirmedEmpty: true, Started: 2, Exited: 2,
				Processes: []api.Outcome{}, Counted: &api.Counted{Births: 1}, AuditHead: last.String()}
			r["report"] = report
			receipts = append(receipts, report)
		}
		line, err := json.Marshal(r)
		if err != nil {
			panic(err)
		}
		last = access.ChainHeadOf(uint64(i+1), line)
		lines, heads = append(lines, line), append(heads, last)
	}
	return lines, heads, receipts
}

// verify checks a log that is split into two files.
func verify(t require.T, lines [][]byte, receipts []*api.Report, head access.ChainHead) *api.Verification {
	t.Helper()
	file := func(name string, lines [][]byte) access.AuditFile {
		return access.AuditFile{Name: name, Reader: strings.NewReader(string(bytes.Join(append(slices.Clone(lines), nil), []byte("\n"))))}
	}
	half := len(lines) / 2
	v, err := access.VerifyAudit([]access.AuditFile{file("a.1", lines[:half]), file("a", lines[half:])}, receipts, access.AuditExpect{Head: head})
	require.NoError(t, err)
	return v
}

// One change of a log is always found, with the head of its last record. But for the first record: older
// ones are removed when the log is rotated.
func TestEachChangeIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines, heads, receipts := log(rapid.IntRange(4, 20).Draw(t, "records"))
		last := heads[len(heads)-1]
		if v := verify(t, lines, receipts, last); len(v.Findings) != 0 || v.Records != len(lines) || v.Newest != last.String() || v.Receipts != len(receipts) {
			t.Fatalf("%+v", v)
		}
		at := rapid.IntRange(0, len(lines)-1).Draw(t, "at")
		changed := slices.Clone(lines)
		kinds := []string{"change", "double", "swap", "garbage", "remove"}
		if at == 0 {
			kinds = kinds[:3]
		}
		switch rapid.SampledFrom(kinds).Draw(t, "what") {
		case "change":
			changed[at] = bytes.Replace(changed[at], []byte(`"verb":"end"`), []byte(`"verb":"enD"`), 1)
		case "garbage":
			changed[at] = []byte("{")
		case "remove":
			changed = slices.Delete(changed, at, at+1)
		case "double":
			changed = slices.Insert(changed, at, changed[at])
		case "swap":
			other := (at + 1) % len(changed)
			changed[at], changed[other] = changed[other], changed[at]
		}
		if v := verify(t, changed, nil, last); len(v.Findings) == 0 {
			t.Fatalf("nothing is found at record %d of %d", at+1, len(lines))
		}
	})
}

// What a log alone cannot show, a head does: a cut tail, and a log that was replaced as a whole.
func TestHeads(t *testing.T) {
	lines, heads, receipts := log(10)
	other, _, _ := log(12)
	for n := range other { // the same log with other times: each line follows the one before
		other[n] = bytes.ReplaceAll(other[n], []byte("2026-01-02"), []byte("2026-01-03"))
	}
	var second [][]byte
	var last access.ChainHead
	for n, line := range other {
		var r map[string]any
		require.NoError(t, json.Unmarshal(line, &r))
		r["prev"] = last.Hash
		line, _ = json.Marshal(r)
		last = access.ChainHeadOf(uint64(n+1), line)
		second = append(second, line)
	}
	for name, c := range map[string]struct {
		lines    [][]byte
		receipts []*api.Report
		head     access.ChainHead
		want     []string // in the findings, in their order
		older    int
	}{
		"whole":                        {lines, receipts, heads[3], nil, 0},
		"a tail is cut":                {lines[:6], nil, access.ChainHead{}, nil, 0},
		"a tail is cut, head":          {lines[:6], nil, heads[9], []string{"record 10 is not there: the log ends at record 6, and was cut or replaced"}, 0},
		"a tail is cut, receipts":      {lines[:6], receipts, access.ChainHead{}, []string{"receipt s7: it names record 7", "receipt s9: it names record 9"}, 0},
		"replaced":                     {second, nil, access.ChainHead{}, nil, 0},
		"replaced, head":               {second, nil, heads[4], []string{"record 5 has another hash: the log was replaced"}, 0},
		"its old records are not kept": {lines[4:], receipts, heads[5], nil, 2},
		"its beginning is gone":        {lines[5:], nil, access.ChainHead{}, []string{"the log begins with record 6, not 1: the beginning is missing"}, 0},
		"not kept, the one before":     {lines[4:], nil, heads[3], nil, 0},
		"not kept, another before":     {lines[4:], nil, access.ChainHeadOf(4, nil), []string{"record 4 is not the one before the first record"}, 0},
		"not kept, head":               {lines[4:], nil, heads[0], []string{"record 1 is older than record 5, the first one that is kept: it cannot be checked"}, 0},
		"a receipt in it contradicts": {[][]byte{lines[0], bytes.Replace(lines[1], []byte(`"live":0`), []byte(`"live":1`), 1)}, nil, access.ChainHead{},
			[]string{"record 2, receipt s1: its verdict is clean, and the kernel counted 1 live and 0 dying"}, 0},
		"no log": {nil, receipts[1:2], heads[0], []string{"record 1 is not there", "receipt s3: it names record 3"}, 0},
		"the first one says it is first": {append([][]byte{bytes.Replace(lines[4], []byte(heads[3].Hash), nil, 1)}, second[:0]...), nil,
			access.ChainHead{}, []string{"record 5 says that it is the first one"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			v := verify(t, c.lines, c.receipts, c.head)
			if len(v.Findings) != len(c.want) || v.Older != c.older {
				t.Fatalf("%d older, %q", v.Older, v.Findings)
			}
			for n, want := range c.want {
				if !strings.Contains(v.Findings[n], want) {
					t.Errorf("%q does not contain %q", v.Findings[n], want)
				}
			}
		})
	}
}

// A killed daemon leaves half a line; a record without the hash of the one before, and a line that is too long, are
// not its work.
func TestUnfinishedLines(t *testing.T) {
	lines, _, _ := log(2)
	if v := verify(t, [][]byte{lines[0], []byte(`{"seq":"1`), lines[1]}, nil, access.ChainHead{}); v.Incomplete != 1 || v.Records != 2 || len(v.Findings) != 0 {
		t.Errorf("%+v", v)
	}
	for line, want := range map[string]string{
		`{"seq":"2","verb":"end"}`: "record 2 does not follow record 1", strings.Repeat("x", 2<<20): "no daemon wrote it",
	} {
		if v := verify(t, [][]byte{lines[0], []byte(line)}, nil, access.ChainHead{}); len(v.Findings) != 1 || !strings.Contains(v.Findings[0], want) {
			t.Errorf("%q", v.Findings)
		}
	}
}

func TestParseHead(t *testing.T) {
	sum := strings.Repeat("0aF", 21) + "0"
	h, err := access.ParseChainHead("12:" + sum)
	if err != nil || h.Seq != 12 || h.String() != "12:"+strings.ToLower(sum) {
		t.Errorf("%v %v", h, err)
	}
	for _, bad := range []string{"", "12", "0:" + sum, ":" + sum, "-1:" + sum, "1:" + sum[1:], "1:" + sum[:63] + "x", "1:" + sum + "00"} {
		if h, err := access.ParseChainHead(bad); err == nil {
			t.Errorf("%q is %v", bad, h)
		}
	}
}

func FuzzRead(f *testing.F) {
	lines, _, _ := log(3)
	f.Add(bytes.Join(lines, []byte("\n")))
	f.Add([]byte("{\"seq\":\"18446744073709551615\",\"prev\":\"\",\"time\":\"x\"}\nnull\n[]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var l access.Chain
		if err := l.Read("f", bytes.NewReader(b), func(access.ChainRecord) {}); err != nil {
			t.Error(err)
		}
	})
}
