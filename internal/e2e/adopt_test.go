//go:build linux

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// A user adopts and ends a shell that has started a process as root, which the user may not end: it is named, and lives.
func TestAdoptOfUser(t *testing.T) {
	i := stage.NewDaemon(t)
	m := stage.NewMarker(t, i.Dir)
	p := stage.Start(t, shell(m, "/bin/sh", fmt.Sprintf("exec 9>%s; sleep 300 & echo root $! >&9; exec setpriv --reuid %d --clear-groups sh -c 'sleep 301 & echo started >&9; wait'",
		m.Path, stage.Nobody)))
	rootd, err := strconv.Atoi(m.Line("root", 1)[0])
	require.NoError(t, err)
	defer func() { _ = unix.Kill(rootd, unix.SIGKILL) }()
	m.Line("started", 1)
	adopted := i.StartNobody(nil, "adopt", fmt.Sprint(p.Process.Pid), "--name", "mine", "--grace", "0s").Wait()
	if want := fmt.Sprintf(
		"lineage: adopt: pid %d (sleep) and its descendants are not adopted: it runs as uid 0; ",
		rootd,
	); adopted.Code() != 0 ||
		!strings.Contains(adopted.Err.String(), want) {
		t.Errorf("want %s: %v", want, adopted)
	}
	if end := i.StartNobody(nil, "end", "--yes", "mine").Wait(); end.Code() != 0 {
		t.Error(end)
	}
	p.Wait()
	if r := i.Receipt("mine"); r.Verdict != "clean" || len(r.Processes) != 2 {
		t.Errorf("%+v", r)
	}
	if holders := m.Holders(); len(holders) != 1 || unix.Kill(rootd, 0) != nil {
		t.Errorf("alive: %v, want root's process %d", holders, rootd)
	}
}
