package follow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/statedir"
)

// place is a place in the events of the host: an event, of this boot or an earlier one.
type place struct {
	Schema string    `json:"schema"`
	Boot   string    `json:"boot"`
	Seq    api.U64   `json:"seq,omitempty"` // 0: an event of an earlier boot, whose number is not known
	TimeNS api.U64   `json:"time_ns"`
	Time   time.Time `json:"time"`
}

const schema = "lineage-export/1"

// behind: the event at p was read before that at q, in the same boot.
func (p *place) behind(q *place) bool {
	if p.Seq != 0 && q.Seq != 0 {
		return p.Seq <= q.Seq
	}
	return p.TimeNS+slackNS < q.TimeNS
}

// slackNS is how far the times of two events, on two CPUs, may contradict their order.
const slackNS = 10e6

// Store is the directory of the cursors; without one nothing is saved.
type Store struct{ dir *statedir.Dir }

// OpenStore locks a directory, and makes it if needed; "": nothing is saved.
func OpenStore(path string) (*Store, error) {
	if path == "" {
		return &Store{}, nil
	}
	dir, err := statedir.Open(path, "cursor")
	if err != nil {
		return nil, err
	}
	return &Store{dir}, nil
}

// Close unlocks the directory.
func (s *Store) Close() error {
	if s.dir == nil {
		return nil
	}
	return s.dir.Close()
}

// cursor reads how far a sink is; nil: it has none.
func (s *Store) cursor(sink string) (*place, error) {
	var p place
	found, err := s.read(
		sink,
		&p,
		func() bool { return p.Schema == schema && p.Boot != "" && p.TimeNS != 0 && !p.Time.IsZero() },
		schema+" with boot, time_ns and time",
	)
	if err != nil || !found {
		return nil, err
	}
	return &p, nil
}

// read reads the cursor of that name, which must be valid: what says how it would be. Not found: the sink begins.
func (s *Store) read(name string, to any, valid func() bool, what string) (found bool, err error) {
	if s.dir == nil {
		return false, nil
	}
	path := s.dir.Path(name + ".cursor")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err = json.Unmarshal(b, to); err == nil && !valid() {
		err = errors.New("want " + what)
	}
	if err != nil {
		return false, fmt.Errorf("invalid cursor %s: %w; remove it to begin with what happens now", path, err)
	}
	return true, nil
}

// writeCursor saves how far a sink is.
func (s *Store) writeCursor(sink string, at any) error {
	return s.replace(sink+".cursor", func(w io.Writer) error { return json.NewEncoder(w).Encode(at) })
}

// replace writes a file as a whole, or leaves it as it was.
func (s *Store) replace(name string, write func(io.Writer) error) error {
	if s.dir == nil {
		return nil
	}
	return s.dir.Replace(name, write)
}
