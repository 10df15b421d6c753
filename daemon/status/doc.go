// Package status reports the state of the daemon: to users, the service manager, the
// live picture and Prometheus.
package status
