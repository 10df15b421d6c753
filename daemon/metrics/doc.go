// Package metrics is what a daemon reports to Prometheus: one table of metrics, read
// from one snapshot. No label ever names a process, a session or a user.
package metrics
