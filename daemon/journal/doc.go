// Package journal keeps history on disk: the sessions with their receipts and
// processes, and the events. What it holds of live sessions is what a restarted
// daemon remembers of them beyond the kernel's maps.
//
// It is one SQLite file in WAL mode. One goroutine writes it, in batches, each
// of which is there as a whole or not at all. A journal that cannot be used is
// no error of its owner: it says why, and works again when it can. A file that
// is no journal of ours, is damaged or comes from a newer version is set aside
// under a name that says so, never written, and another one is begun.
package journal
