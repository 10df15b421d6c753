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

// table is one of the file, with its columns but the last: that is the CRC-32 of the others.
type table struct{ name, columns string }

// put writes n rows with the fields that row gives, in place of those with the same key.
func (t table) put(ctx context.Context, tx *sql.Tx, n int, row func(i int) []any) error {
	if n == 0 {
		return nil
	}
	marks := strings.Repeat("?, ", 1+strings.Count(t.columns, ","))
	put, err := tx.PrepareContext(ctx, fmt.Sprintf("INSERT OR REPLACE INTO %s (%s, sum) VALUES (%s?)", t.name, t.columns, marks))
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
func read[T any, P rowOf[T]](ctx context.Context, j *Journal, t table, where string, args ...any) (all []T, err error) {
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
