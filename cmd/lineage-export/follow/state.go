package follow

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lineage-ebpf/lineage/api"
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

// Store is the directory of the cursors, which this program has locked: two would overwrite each other's. Without one
// nothing is saved.
type Store struct {
	path string // "": none
	lock *os.File
}

// OpenStore locks a directory, and makes it if needed; "": nothing is saved.
func OpenStore(path string) (*Store, error) {
	if path == "" {
		return &Store{}, nil
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("state directory %s: another process uses it", path)
	}
	return &Store{path, f}, nil
}

func (s *Store) Close() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
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

// file is that of the cursor of that name.
func (s *Store) file(name string) string { return filepath.Join(s.path, name+".cursor") }

// read reads the cursor of that name, which must be valid: what says how it would be. Not found: the sink begins.
func (s *Store) read(name string, to any, valid func() bool, what string) (found bool, err error) {
	if s.path == "" {
		return false, nil
	}
	b, err := os.ReadFile(s.file(name))
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
		return false, fmt.Errorf("invalid cursor %s: %w; remove it to begin with what happens now",
			s.file(name), err)
	}
	return true, nil
}

// writeCursor saves how far a sink is, as a whole, or leaves the cursor as it was. The one of a sink must not be written twice
// at the same time: only one file of it is new, so that errors are the same each time.
func (s *Store) writeCursor(sink string, at any) error {
	if s.path == "" {
		return nil
	}
	f, err := os.OpenFile(s.file(sink)+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err == nil {
		err = cmp.Or(json.NewEncoder(f).Encode(at), f.Sync(), f.Close())
	}
	if err == nil {
		err = os.Rename(f.Name(), s.file(sink))
	}
	if err == nil {
		err = SyncDir(s.path)
	}
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}

// SyncDir writes a directory to the disk: else a crash of the host could bring a file back as it was.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
