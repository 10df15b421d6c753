package follow

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/model"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
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

// Store is the directory of the cursors; "": nothing is saved.
type Store struct {
	dir  string
	lock *os.File
}

// OpenStore locks a directory, and makes it if needed: two exporters would overwrite
// each other's cursors.
func OpenStore(dir string) (*Store, error) {
	if dir == "" {
		return &Store{}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("state directory %s: another exporter uses it", dir)
	}
	if err := removeNew(dir); err != nil {
		f.Close()
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	return &Store{dir, f}, nil
}

// newFile is between the name of a file that is being written and a random number.
const newFile = ".new-"

var newName = regexp.MustCompile(`^[a-z]+\.(cursor|model)` + regexp.QuoteMeta(newFile) + `[0-9]+$`)

// removeNew removes what an exporter left that was killed while it wrote.
func removeNew(dir string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.Type().IsRegular() && newName.MatchString(e.Name()) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close unlocks the directory.
func (s *Store) Close() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// cursor reads how far a sink is; nil: it has none.
func (s *Store) cursor(sink string) (*place, error) {
	path := filepath.Join(s.dir, sink+".cursor")
	if s.dir == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var p place
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("invalid cursor %s: %w; remove it to begin with what happens now", path, err)
	}
	if p.Schema != schema || p.Boot == "" || p.TimeNS == 0 || p.Time.IsZero() {
		return nil, fmt.Errorf("invalid cursor %s: want %s with boot, time_ns and time; remove it to begin with what happens now", path, schema)
	}
	return &p, nil
}

// keptModel is the first line of a sink's model: where it was.
type keptModel struct {
	Schema string `json:"schema"`
	At     place  `json:"at"`
}

const modelSchema = "lineage-export-model/1"

// writeModel saves a sink's model.
func (s *Store) writeModel(sink string, at *place, m *model.Model) error {
	return s.replace(sink+".model", func(w io.Writer) error {
		if err := json.NewEncoder(w).Encode(&keptModel{modelSchema, *at}); err != nil {
			return err
		}
		return m.Save(w)
	})
}

// model reads the model of a sink, if it is not ahead of the cursor; nil: it was never saved.
func (s *Store) model(sink string, cursor *place, host *record.Host) (*model.Model, *place, error) {
	if s.dir == "" {
		return nil, nil, nil
	}
	f, err := os.Open(filepath.Join(s.dir, sink+".model"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	var kept keptModel
	first, err := r.ReadSlice('\n')
	if err != nil || json.Unmarshal(first, &kept) != nil || kept.Schema != modelSchema {
		return nil, nil, fmt.Errorf("%s is damaged, or has another format than %s", f.Name(), modelSchema)
	}
	if kept.At.Boot != cursor.Boot || kept.At.TimeNS > cursor.TimeNS {
		return nil, nil, errors.New("it does not belong to the cursor")
	}
	m, err := model.Load(r, host, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return m, &kept.At, nil
}

// writeCursor saves how far a sink is.
func (s *Store) writeCursor(sink string, at *place) error {
	return s.replace(sink+".cursor", func(w io.Writer) error { return json.NewEncoder(w).Encode(at) })
}

// replace writes a file as a whole, or leaves it as it was.
func (s *Store) replace(name string, write func(io.Writer) error) error {
	if s.dir == "" {
		return nil
	}
	f, err := os.CreateTemp(s.dir, name+newFile)
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(s.dir, name))
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}
