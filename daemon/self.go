//go:build linux

package daemon

// selfProtection is what came of the policy's self_protect, at the start: later
// the daemon has no privileges to load anything with.
type selfProtection struct {
	on  bool
	err error
}

// protectSelf does what the policy says about members that act against the
// daemon. One that cannot is no worse than one that was not asked to, and says
// so in its status. What an earlier daemon attached goes if it is not asked for.
func (s *server) protectSelf(on bool) {
	p := &s.self
	p.err = s.kernel.SelfProtect(on)
	p.on = on && p.err == nil
	if p.err != nil {
		s.log.Error().Err(p.err).Msg("self_protect not in force")
	}
}
