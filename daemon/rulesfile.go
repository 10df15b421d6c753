//go:build linux

package daemon

import (
	"context"
	"os"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
)

// policyFile returns the path of an instance's policy, "" if there is none. The host's is in /etc. must: the
// path was named by a user.
func policyFile(i system.Instance, o Options) (path string, must bool) {
	if o.Policy == "" && i.Socket == api.DefaultSocket {
		return policy.DefaultFile, false
	}
	return o.Policy, o.Policy != ""
}

// begin takes the keys that are read at a start into the options. The command line
// takes precedence.
func (o *Options) begin(started *policy.Policy) {
	if o.Level == 0 {
		o.Level = slices.Index([]string{"auto", "1", "2", "3", "4"}, started.Daemon.Level)
	}
}

func reloadOn(ctx context.Context, hup <-chan os.Signal, steward *rules.Steward, m *system.Manager) {
	system.Each(ctx, hup, func(os.Signal) {
		m.Notify(system.Reloading()...)
		_ = steward.Reload() // it is logged, and shown in the status
		m.Notify(system.Ready)
	})
}
