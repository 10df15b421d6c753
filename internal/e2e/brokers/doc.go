// Package brokers runs bin/lineage against real brokers: tmux, atd, cron, runc and
// dockerd as Debian packages them, each started by the test, in directories of
// its own. Run it with "make test-brokers".
package brokers
