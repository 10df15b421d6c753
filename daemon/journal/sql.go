//go:build linux

package journal

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
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

// each runs a query and passes each of its rows to scan.
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

// wall is a column with a wall time in ns; NULL is the zero time.
type wall struct{ *time.Time }

// Scan is [sql.Scanner]'s.
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
