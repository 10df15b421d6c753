//go:build linux

package history

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"hash/crc32"
	"strings"
	"time"
)

// inTx runs do in a transaction: all of it is written or, with an error, nothing.
func inTx(ctx context.Context, db *sql.DB, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// querier is a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error)
}

func each(ctx context.Context, db querier, q string, args []any, scan func(*sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, q, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// table is one of the file, with its columns but the last: that is the CRC-32 of the others.
type table struct{ name, columns string }

// put writes n rows with the fields that row gives, in place of those with the same key.
func (t table) put(ctx context.Context, tx *sql.Tx, n int, row func(i int) []any) error {
	if n == 0 {
		return nil
	}
	marks := strings.Repeat("?, ", 1+strings.Count(t.columns, ","))
	put, err := tx.PrepareContext(ctx, fmt.Sprintf("INSERT OR REPLACE INTO %s (%s, sum) VALUES (%s?)",
		t.name, t.columns, marks))
	if err != nil {
		return err
	}
	defer put.Close()
	for i := range n {
		values, err := summed(row(i))
		if err != nil {
			return err
		}
		if _, err := put.ExecContext(ctx, values...); err != nil {
			return err
		}
	}
	return nil
}

// summed are the values of the fields that pointers are to, and the CRC-32 of the values.
func summed(fields []any) (values []any, err error) {
	h := crc32.NewIEEE()
	for _, f := range fields {
		v, err := driver.DefaultParameterConverter.ConvertValue(f)
		if err != nil {
			return nil, err
		}
		if text, ok := v.([]byte); ok {
			h.Write(text)
		} else {
			fmt.Fprint(h, v)
		}
		h.Write([]byte{0})
		values = append(values, v)
	}
	return append(values, int64(h.Sum32())), nil
}

// scan reads the fields of a row, of which the checksum must be right.
func scan(rows *sql.Rows, fields []any) error {
	var sum int64
	if rows.Scan(append(fields, &sum)...) != nil {
		return errDamaged
	}
	if values, err := summed(fields); err != nil || values[len(fields)] != sum {
		return errDamaged
	}
	return nil
}

// rowOf is a row of type T, which gives pointers to its fields in the order of the columns.
type rowOf[T any] interface {
	*T
	fields() []any
}

// read gives the rows that a condition selects; damaged ones are left out and counted.
func read[T any, P rowOf[T]](ctx context.Context, j *Journal, t table, where string,
	args ...any) (all []T, err error) {
	err = j.rows(ctx, "SELECT "+t.columns+", sum FROM "+t.name+" WHERE "+where, args, func(rows *sql.Rows) error {
		var x T
		err := scan(rows, P(&x).fields())
		if err == nil {
			all = append(all, x)
		}
		return err
	})
	return all, err
}

// wall is a column with a wall time in ns; NULL is the zero time.
type wall struct{ *time.Time }

func (t wall) Scan(v any) error {
	switch ns := v.(type) {
	case nil:
		*t.Time = time.Time{}
	case int64:
		*t.Time = time.Unix(0, ns).UTC()
	default:
		return fmt.Errorf("%w: a time is %T", errDamaged, v)
	}
	return nil
}

// Value is [driver.Valuer]'s.
func (t wall) Value() (driver.Value, error) {
	if t.IsZero() {
		return nil, nil
	}
	return t.UnixNano(), nil
}

// application is SQLite's application_id of our files: "lnge".
const application = 0x6c6e6765

// version is the user_version of our files. Older ones were never released.
const version = 7

// tables is the schema, which a released version never changes: it needs a migration then.
//
// Times are wall time in ns; sum is the CRC-32 of what the row was written with. ended is NULL
// while the session lives. The number of an end says when it was first written with its receipt, in the order of these
// writes, also over several files: the time in µs, or one more than the last. An event block holds the records first..last of one boot, whose boottime
// 0 was at zero.
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
CREATE INDEX events_ended ON events (ended)`

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
	case its != version:
		return false, fmt.Errorf("%w: its schema is %d, ours %d", errVersion, its, version)
	case schema != tables:
		return false, fmt.Errorf("%w: its tables are %.200q", errDamaged, schema)
	}
	return false, nil
}

// makeSchema makes the tables of a new file, and with the first use of the connection its layout.
func makeSchema(ctx context.Context, db *sql.DB) error {
	err := inTx(ctx, db, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, fmt.Sprintf("%s; PRAGMA application_id = %d; PRAGMA user_version = %d",
			tables, application, version))
		return err
	})
	if err != nil {
		return fmt.Errorf("make schema: %w", err)
	}
	return nil
}
