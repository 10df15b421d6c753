//go:build linux

package history

import (
	"context"
	"database/sql"
	"fmt"
)

// application is SQLite's application_id of our files: "lnge".
const application = 0x6c6e6765

// version is the user_version of our files. Older ones were never released.
const version = 5

// tables is the schema, which a released version never changes: it needs a migration then.
//
// Times are wall time in ns; sum is the CRC-32 of what the row was written with. ended is NULL
// while the session lives. The number of an end says when it was first written with its receipt, in the order of these
// writes, also over several files: the time in µs, or one more than the last. An event block holds the records first..last of one boot, whose boottime
// 0 was at zero. A listener is a TCP port; its ended is NULL if the end is unknown.
const tables = `CREATE TABLE sessions (
	boot TEXT NOT NULL, id INTEGER NOT NULL, word TEXT NOT NULL, name TEXT NOT NULL, uid INTEGER NOT NULL,
	parent INTEGER NOT NULL, zero INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER,
	doc BLOB NOT NULL, report BLOB, state BLOB, sum INTEGER NOT NULL,
	PRIMARY KEY (boot, id));
CREATE INDEX sessions_ended ON sessions (ended, id);
CREATE INDEX sessions_word ON sessions (word);
CREATE INDEX sessions_name ON sessions (name, ended);
CREATE TABLE ends (number INTEGER PRIMARY KEY, boot TEXT NOT NULL, id INTEGER NOT NULL);
CREATE UNIQUE INDEX ends_session ON ends (boot, id);
CREATE TABLE processes (
	boot TEXT NOT NULL, pid INTEGER NOT NULL, start INTEGER NOT NULL, session INTEGER NOT NULL,
	doc BLOB NOT NULL, sum INTEGER NOT NULL,
	PRIMARY KEY (boot, pid, start)) WITHOUT ROWID;
CREATE INDEX processes_session ON processes (boot, session, start);
CREATE TABLE events (
	id INTEGER PRIMARY KEY, boot TEXT NOT NULL, zero INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
	began INTEGER NOT NULL, ended INTEGER NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE INDEX events_boot ON events (boot, last);
CREATE INDEX events_ended ON events (ended);
CREATE TABLE listeners (
	boot TEXT NOT NULL, pid INTEGER NOT NULL, start INTEGER NOT NULL, since INTEGER NOT NULL, session INTEGER NOT NULL,
	address TEXT NOT NULL, port INTEGER NOT NULL, began INTEGER NOT NULL, ended INTEGER, sum INTEGER NOT NULL,
	PRIMARY KEY (boot, pid, start, since)) WITHOUT ROWID;
CREATE INDEX listeners_port ON listeners (port, began);
CREATE INDEX listeners_ended ON listeners (ended);
CREATE INDEX listeners_session ON listeners (boot, session)`

// known reads the version of a file and compares its schema, which must be exactly ours: an added
// trigger or view would run with our rights. An empty database is fresh.
func known(ctx context.Context, db *sql.DB) (fresh bool, err error) {
	// SQLite keeps the statements as they were given; the index of a primary key has none.
	const q = `SELECT application_id, user_version, (SELECT coalesce(group_concat(sql, ';' || char(10) ORDER BY rowid), '')
		FROM (SELECT rowid, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid LIMIT 100)) FROM pragma_application_id, pragma_user_version`
	var id, its int
	var schema string
	if err := db.QueryRowContext(ctx, q).Scan(&id, &its, &schema); err != nil {
		return false, fmt.Errorf("read schema: %w", err)
	}
	switch {
	case id == 0 && its == 0 && schema == "":
		return true, nil
	case id != application || its <= 0:
		return false, errNotOurs
	case its < version:
		return false, fmt.Errorf("%w: its schema is %d, ours %d", errOlder, its, version)
	case its > version:
		return false, fmt.Errorf("%w: its schema is %d, ours %d", errNewer, its, version)
	case schema != tables:
		return false, fmt.Errorf("%w: its tables are %.200q", errDamaged, schema)
	}
	return false, nil
}

// makeSchema makes the tables of a new file, and with the first use of the connection its layout.
func makeSchema(ctx context.Context, db *sql.DB) error {
	err := inTx(ctx, db, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, fmt.Sprintf("%s; PRAGMA application_id = %d; PRAGMA user_version = %d", tables, application, version))
		return err
	})
	if err != nil {
		return fmt.Errorf("make schema: %w", err)
	}
	return nil
}
