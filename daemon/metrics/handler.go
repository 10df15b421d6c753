package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler serves the metrics. read is called once a scrape, from any
// goroutine; its error is the reply's, with status 500.
func Handler(read func() (*Snapshot, error)) http.Handler {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(newCollector(read), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{DisableCompression: true})
}
