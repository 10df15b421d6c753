// Package history keeps the recent events once for all readers, records what outlives the daemon, and returns it to the
// next one.
//
// On disk is a journal: the sessions with their receipts and processes, and the events. What it has of live sessions is
// what a restarted daemon remembers of them beyond the kernel's maps. It is one SQLite file in WAL mode. One goroutine
// writes it, in batches, each of which is written as a whole or not at all. A journal that cannot be used is not an
// error of the daemon: it reports why, and works again when it can. A file that is not our journal, is damaged or comes
// from another version is set aside under a name that shows this. It is never written, and another file is begun.
package history
