// Package metrics serves the daemon's /metrics, which the daemon offers on its unix
// socket only, on TCP. It adds nothing and keeps nothing: each scrape asks the daemon,
// which decides whether this program may read them.
package metrics
