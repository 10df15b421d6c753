//go:build linux

package brokers

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// What cron starts has nothing of the process that asked for it, unless that was put
// there, so only the request is reported. This takes until the next full minute.
func TestCron(t *testing.T) {
	stage.Need(t, "test-brokers", "cron", "crontab")
	i := policed(t, "end: strong")
	stage.Start(t, exec.Command("cron", "-f"))
	a := ask(i, `{ echo "LINEAGE_TOKEN=$LINEAGE_TOKEN"; echo '* * * * * exec sleep 131'; } | crontab -`)
	if b := a.brokered("pending", ""); b.Broker != "cron" || b.Asked == nil {
		t.Errorf("%+v", b)
	}
	// cron rereads its tables only if their directory's mtime, in seconds, differs from
	// the last read, and this may be the second in which cron started.
	time.Sleep(time.Second)
	if now := time.Now(); os.Chtimes("/var/spool/cron/crontabs", now, now) != nil {
		t.Fatal("no spool of cron")
	}
	stage.Patience *= 3
	defer func() { stage.Patience /= 3 }()
	b := a.brokered("attributed", "env")
	is(t, b, "cron", "env", "strong", true)
	require.NoError(t, exec.Command("crontab", "-r").Run())
	i.End("work")
	if alive(b) {
		t.Error("the job lives")
	}
}
