//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// The users of TestRequests are nobody else's on any host: what their requests end is their own.
const (
	memberUID = 64_107
	plainUID  = 64_108
)

// TestRequests: a member and a plain user send what they can think of to all routes, about
// processes that exit at that moment, for LNGTEST_REQUESTS seconds. No request ends the daemon, is
// answered with an error of the daemon, or leaves something behind in it.
func TestRequests(t *testing.T) {
	seconds := stage.FromEnv(t, "LNGTEST_REQUESTS", 6)
	i := stage.New(t)
	log := filepath.Join(i.Dir, "daemon.log")
	d := i.LoggedDaemon(log, "GODEBUG=gctrace=1") // it reports its live heap
	began := i.Version()
	load := func(n int) map[string]int {
		total := make(map[string]int)
		self, lineage := i.Copy(os.Args[0]), i.Copy(stage.Lineage)
		var all []*stage.Process
		for uid, args := range map[uint32][]string{
			memberUID: {lineage, "run", "-q", "--grace", "0s", "--", self},
			plainUID:  {self},
		} {
			cmd := i.Command(append(args[1:len(args):len(args)], "lngtest-requests", fmt.Sprint(n), fmt.Sprint(time.Now().UnixNano())), nil)
			cmd.Path = args[0]
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
			all = append(all, stage.Start(t, cmd))
		}
		time.Sleep(time.Duration(n) * time.Second)
		for _, p := range all {
			if p.Wait().Code() != 0 {
				t.Errorf("%v", p)
			}
			var tally map[string]int
			if err := json.Unmarshal(p.Out.Bytes(), &tally); err != nil {
				t.Errorf("%v: %v", err, p)
			}
			for answer, n := range tally {
				if total[answer] += n; strings.HasPrefix(answer, "5") || strings.HasPrefix(answer, "broken") {
					t.Errorf("%d times: %s", n, answer)
				}
			}
		}
		return total
	}
	// What is bounded fills up in the first half, so that the second one shows what grows.
	first := load(seconds / 2)
	heap, files := settled(i, d.Process.Pid, log)
	second := load(seconds - seconds/2)
	heapNow, filesNow := settled(i, d.Process.Pid, log)
	t.Logf("figure: %v, then %v; live heap %d MB, then %d MB; %d descriptors, then %d", first, second, heap, heapNow, files, filesNow)
	if now := i.Version(); now == nil || now.PID != began.PID || !now.Started.Equal(*began.Started) {
		t.Errorf("the daemon has restarted: %+v, before %+v", now, began)
	}
	if text, err := os.ReadFile(log); err != nil || bytes.Contains(text, []byte("panic")) {
		t.Errorf("%v, the daemon's log: %s", err, text)
	}
	if filesNow > files+2 {
		t.Errorf("%d descriptors, before %d", filesNow, files)
	}
	if seconds >= 600 && heapNow > heap+max(heap/20, 1) {
		t.Errorf("live heap %d MB, before %d MB", heapNow, heap)
	}
}

var gcLine = regexp.MustCompile(`(?m)^gc \d+ @.* \d+->\d+->(\d+) MB, `)

// settled ends what the load left, and gives the daemon's live heap in MB after another garbage
// collection, and the number of its descriptors once that does not change any more.
func settled(i *stage.Instance, pid int, log string) (heap, files int) {
	i.T.Helper()
	for _, s := range stage.Query[api.Sessions](i, "ls").Items {
		i.Lineage("end", "--yes", "--now", s.ID)
	}
	lines := func() [][]string {
		text, err := os.ReadFile(log)
		require.NoError(i.T, err)
		return gcLine.FindAllStringSubmatch(string(text), -1)
	}
	before := len(lines())
	i.Until("garbage collection", func() bool {
		resp, err := i.Client().Get("http://lineage/v1/sessions?state=all") // it allocates
		require.NoError(i.T, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return len(lines()) >= before+2
	})
	all := lines()
	heap, _ = strconv.Atoi(all[len(all)-1][1])
	i.Until("constant number of descriptors", func() bool {
		was := files
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		require.NoError(i.T, err)
		files = len(list)
		time.Sleep(time.Second)
		return files == was
	})
	return heap, files
}
