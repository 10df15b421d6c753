// Package status says how the daemon is: to users, the service manager, the live picture
// and Prometheus.
package status
