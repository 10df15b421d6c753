//go:build linux

package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// application is SQLite's application_id of our files: "lnge".
const application = 0x6c6e6765

// steps make the schema, each from the version before it; a file's user_version is how many it has
// had. A released step is never changed: add one.
//
// Times are wall time in ns; sum is the CRC-32 of what the row was written with. ended is NULL
// while the session lives. An event block holds the records first..last of one boot, whose boottime
// 0 was at zero. A listener is a TCP port; its ended is NULL if the end is unknown.
var steps = []string{`
CREATE TABLE sessions (
	boot TEXT NOT NULL, id INTEGER NOT NULL, word TEXT NOT NULL, name TEXT NOT NULL, uid INTEGER NOT NULL,
	parent INTEGER NOT NULL, zero INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER,
	doc BLOB NOT NULL, report BLOB, state BLOB, sum INTEGER NOT NULL,
	PRIMARY KEY (boot, id));
CREATE INDEX sessions_ended ON sessions (ended, id);
CREATE INDEX sessions_word ON sessions (word);
CREATE INDEX sessions_name ON sessions (name, ended);
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
`, `
CREATE TABLE listeners (
	boot TEXT NOT NULL, pid INTEGER NOT NULL, start INTEGER NOT NULL, since INTEGER NOT NULL, session INTEGER NOT NULL,
	address TEXT NOT NULL, port INTEGER NOT NULL, began INTEGER NOT NULL, ended INTEGER, sum INTEGER NOT NULL,
	PRIMARY KEY (boot, pid, start, since)) WITHOUT ROWID;
CREATE INDEX listeners_port ON listeners (port, began);
CREATE INDEX listeners_ended ON listeners (ended);
CREATE INDEX listeners_session ON listeners (boot, session);
`, `
-- Blocks of events may be of format 3, which the version before cannot read.
`}

// Reasons for which a file is set aside.
var (
	errNotOurs = errors.New("it is not a history of lineage")
	errNewer   = errors.New("a newer version of lineage wrote it")
	errDamaged = errors.New("it is damaged")
)

// query is what a connection and a transaction have in common.
type query interface {
	QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row
	ExecContext(ctx context.Context, q string, args ...any) (sql.Result, error)
}

// known reads the schema's version of a file. The schema must match ours exactly: an
// added trigger or view would run with our rights. An empty database is version 0.
func known(ctx context.Context, db *sql.DB) (version int, err error) {
	var id, objects int
	for text, to := range map[string]*int{
		"PRAGMA application_id": &id, "PRAGMA user_version": &version, "SELECT count(*) FROM sqlite_schema": &objects,
	} {
		if err := db.QueryRowContext(ctx, text).Scan(to); err != nil {
			return 0, fmt.Errorf("read schema: %w", err)
		}
	}
	switch {
	case id == 0 && version == 0 && objects == 0:
		return 0, nil
	case id != application || version <= 0:
		return 0, errNotOurs
	case version > len(steps):
		return 0, fmt.Errorf("%w: its schema is %d, ours %d", errNewer, version, len(steps))
	}
	return version, sameSchema(ctx, db, version)
}

// migrate brings a file from version to the schema of this program. A new
// file's layout is made here too, by the first use of the connection.
func migrate(ctx context.Context, db *sql.DB, version int) error {
	if version == len(steps) {
		return nil
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("make schema: %w", err)
	}
	defer tx.Rollback()
	for _, step := range steps[version:] {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return fmt.Errorf("make schema: %w", err)
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", application, len(steps))); err != nil {
		return fmt.Errorf("make schema: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("make schema: %w", err)
	}
	return nil
}

// sameSchema compares the file's schema with the one that the steps make.
func sameSchema(ctx context.Context, db *sql.DB, version int) error {
	all, err := models()
	if err != nil {
		return err
	}
	want := all[version]
	got, err := schema(ctx, db)
	if err != nil {
		return err
	}
	if !maps.Equal(got, want) {
		names := slices.Sorted(maps.Keys(got))
		return fmt.Errorf("%w: its tables are %.200q", errDamaged, strings.Join(names, " "))
	}
	return nil
}

// models are the schemas that the steps make, by version.
var models = sync.OnceValues(func() ([]map[string]string, error) {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	all := make([]map[string]string, 1, len(steps)+1)
	for _, step := range steps {
		if _, err := db.ExecContext(ctx, step); err != nil {
			return nil, fmt.Errorf("make schema: %w", err)
		}
		s, err := schema(ctx, db)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
})

func schema(ctx context.Context, db *sql.DB) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, "SELECT type || ' ' || name || ' ' || tbl_name, coalesce(sql, '') FROM sqlite_schema LIMIT 100")
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	defer rows.Close()
	all := make(map[string]string)
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, fmt.Errorf("read schema: %w", err)
		}
		all[name] = text
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	return all, nil
}
