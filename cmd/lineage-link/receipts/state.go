//go:build linux

package receipts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

const (
	stateFile = "receipts.state"
	schema    = "lineage-link/1"
)

// state is what is known of sessions whose receipts are not in the outbox.
type state struct {
	Schema string `json:"schema"`
	// Since: every session that was not live at the last look and ended before is done with.
	Since time.Time `json:"since"`
	// Stored are the receipts that the stream has, by id, with the ends of what they are about. Ends before
	// Since are left out.
	Stored map[string]time.Time `json:"stored"`
	// Open are sessions that were seen and whose receipts have not been taken, by id: since when the daemon
	// does not know them, zero if it does.
	Open map[string]time.Time `json:"open"`
}

// load reads the state; without a file everything begins now.
func (r *Reader) load() error {
	r.state = state{Schema: schema, Since: time.Now()}
	path := r.Dir.Path(stateFile)
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		r.state = state{}
		if err := json.Unmarshal(b, &r.state); err != nil || r.state.Schema != schema || r.state.Since.IsZero() {
			return fmt.Errorf("invalid %s: want %s with since; remove it to begin with what ends now", path, schema)
		}
	}
	if r.state.Stored == nil {
		r.state.Stored = make(map[string]time.Time)
	}
	if r.state.Open == nil {
		r.state.Open = make(map[string]time.Time)
	}
	if err != nil {
		return r.save() // a later start must not begin later
	}
	return nil
}

// save writes the state.
func (r *Reader) save() error {
	return r.Dir.Replace(stateFile, func(w io.Writer) error { return json.NewEncoder(w).Encode(&r.state) })
}
