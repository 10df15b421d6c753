// Package export tests lineage-export: what it sends is compared with an independent reading
// of the events that the daemon's history holds.
package export
