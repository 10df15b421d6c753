//go:build linux

package signed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/system"
)

const (
	// remembered is how long a command is remembered after it has expired, so that its receipt can be read, and
	// atLeast how long if others need the room.
	remembered = 7 * 24 * time.Hour
	atLeast    = time.Hour
	// maxMemory bounds the file, in bytes. A full memory refuses commands.
	maxMemory = 1 << 20
	// forHalts are those that only halts may use.
	forHalts = maxMemory / 8
	// skew is how much the clocks of operators and hosts may differ.
	skew = time.Minute
)

type accepted struct {
	ID        string    `json:"id"`
	UID       uint32    `json:"uid"` // of the caller that brought it, which may ask for its receipt
	Verb      string    `json:"verb"`
	Mode      string    `json:"mode,omitempty"`
	Operators []string  `json:"operators"`
	Reason    string    `json:"reason"`
	Hosts     []string  `json:"hosts"` // the one of the command by which it named this host
	At        time.Time `json:"at"`
	Boot      string    `json:"boot"` // the id of the boot: sessions of another one may have the same ids
	NotAfter  time.Time `json:"not_after"`
	Sessions  []string  `json:"sessions"`
	Spared    []string  `json:"spared,omitempty"`
	Pending   bool      `json:"pending,omitempty"` // what it came to is not known: it failed, or the daemon died
	Number    int64     `json:"number,omitempty"`  // of its receipt, in the order in which commands were over; 0: it has none
}

// memory knows every command that could be valid still and was accepted: it has it, or the command
// expires before the floor. So a command acts at most once whatever the clock does.
type memory struct {
	path     string
	boottime func() uint64

	mu     sync.Mutex
	failed error // the file could not be read: nothing is accepted
	state  state
}

// state is the content of the file.
type state struct {
	// Floor: commands that expire before it are not remembered, and refused.
	Floor    time.Time  `json:"floor"`
	Latest   time.Time  `json:"latest"`
	Commands []accepted `json:"commands"`
	// New is when the record was made. Nothing is accepted until what an earlier record may have had has expired; the
	// floor does not say that if the clock was early. After another start of the host the wait begins again.
	New *made `json:"new,omitempty"`
}

// made is a moment as CLOCK_BOOTTIME counts it in a boot.
type made struct {
	Boot string        `json:"boot"`
	At   time.Duration `json:"at_ns"`
}

var errNoRoom = errors.New("too many commands within an hour")

// forgotten is after how long no command is valid that a lost record had.
const forgotten = api.MaxValidity + skew

// openMemory reads the file. Without it every command that an earlier daemon may have accepted is
// refused: those that expire before the longest validity from now is over, by each of two clocks.
func openMemory(path string, now time.Time, boot string, boottime func() uint64) *memory {
	m := &memory{path: path, boottime: boottime}
	f, err := system.TakeFile(path, os.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m.state.Floor, m.state.New = now.Add(forgotten), &made{boot, m.elapsed()}
		_ = m.write(m.state, maxMemory) // else with the first command, or that is refused
		return m
	case err != nil:
		m.failed = err
		return m
	}
	defer f.Close()
	if err := json.NewDecoder(f).Decode(&m.state); err != nil {
		m.failed = fmt.Errorf("read %s: %w", path, err)
	} else if m.state.New != nil && m.state.New.Boot != boot {
		m.state.New = &made{boot, m.elapsed()}
		m.failed = m.write(m.state, maxMemory)
	}
	return m
}

func (m *memory) elapsed() time.Duration { return time.Duration(m.boottime()) }

func (m *memory) all() []accepted {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.state.Commands)
}

func (m *memory) find(id string) (accepted, bool) {
	for _, a := range m.all() {
		if a.ID == id {
			return a, true
		}
	}
	return accepted{}, false
}

// unfit says why a command may not be carried out now, empty if it may.
func (m *memory) unfit(c *api.Command, now time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reason(c, now)
}

func (m *memory) reason(c *api.Command, now time.Time) string {
	switch {
	case m.failed != nil:
		return fmt.Sprintf("the record of earlier commands cannot be used: %v", m.failed)
	case now.Before(m.state.Latest.Add(-skew)):
		return fmt.Sprintf("the clock of the host went back: its latest command was at %s",
			m.state.Latest.Format(time.RFC3339))
	case !c.NotAfter.After(now):
		return fmt.Sprintf("it expired at %s, and here it is %s", c.NotAfter.Format(time.RFC3339),
			now.Format(time.RFC3339))
	case c.Issued.After(now.Add(skew)):
		return "it was issued in the future, by the clock of the host"
	case !c.NotAfter.After(m.state.Floor):
		return fmt.Sprintf("commands that expire before %s are not remembered here: sign it again after that",
			m.state.Floor.Format(time.RFC3339))
	}
	if m.state.New != nil && m.elapsed()-m.state.New.At < forgotten {
		left := forgotten - (m.elapsed() - m.state.New.At)
		return fmt.Sprintf("the record of earlier commands is new: sign it again in %v",
			left.Round(time.Second))
	}
	for _, a := range m.state.Commands {
		if a.ID == c.ID {
			return "it was accepted before, at " + a.At.Format(time.RFC3339)
		}
	}
	return ""
}

// accept remembers the order on the disk, before it is carried out. An error: it may not be.
func (c *checker) accept(o *order, boot string, uid uint32, sessions []string) (accepted, error) {
	now := c.now()
	a := accepted{
		ID: o.ID, UID: uid, Verb: o.Verb, Mode: o.Mode, Operators: o.Operators,
		Reason: o.Reason, Hosts: []string{o.host},
		At: now, Boot: boot, NotAfter: o.NotAfter, Sessions: sessions, Pending: o.Verb != api.VerbEnd,
	}
	return a, c.memory.accept(&o.Command, a, now)
}

// accept writes a command to the disk. An error: it may not be carried out.
func (m *memory) accept(c *api.Command, a accepted, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if why := m.reason(c, now); why != "" {
		return errors.New(why)
	}
	room := maxMemory
	if c.Verb != api.VerbHalt {
		room -= forHalts
	}
	next := m.next(a, now, remembered)
	err := m.write(next, room)
	if errors.Is(err, errNoRoom) {
		next = m.next(a, now, atLeast)
		err = m.write(next, room)
	}
	if err != nil {
		return fmt.Errorf("it cannot be remembered: %w", err)
	}
	m.state = next
	return nil
}

// next is the state with one more command, without those that expired longer ago.
func (m *memory) next(a accepted, now time.Time, ago time.Duration) state {
	next := state{Floor: m.state.Floor, Latest: now}
	if m.state.Latest.After(now) { // within skew: it must not sink by that with each restart
		next.Latest = m.state.Latest
	}
	for _, old := range m.state.Commands {
		if old.NotAfter.Add(ago).After(now) {
			next.Commands = append(next.Commands, old)
		} else if old.NotAfter.After(next.Floor) {
			next.Floor = old.NotAfter
		}
	}
	next.Commands = append(next.Commands, a)
	return next
}

// over gives a command that is over its number, the time in µs or one more than the last, once that is on the disk.
func (m *memory) over(a accepted, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	number := now.UnixMicro()
	for i := range m.state.Commands {
		number = max(number, m.state.Commands[i].Number+1)
	}
	next := m.with(a.ID, func(have *accepted) { have.Number = number })
	if err := m.write(next, maxMemory); err != nil {
		return err
	}
	m.state = next
	return nil
}

// with is the state with a change of a command's record, which others may have changed since the caller read it.
func (m *memory) with(id string, change func(have *accepted)) state {
	next := m.state
	next.Commands = slices.Clone(m.state.Commands)
	if i := slices.IndexFunc(next.Commands, func(x accepted) bool { return x.ID == id }); i >= 0 {
		change(&next.Commands[i])
	}
	return next
}

// carried replaces the record of a command that was accepted and carried out. An error: the next daemon will not
// know what it came to.
func (m *memory) carried(a accepted) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = m.with(a.ID, func(have *accepted) {
		a.Pending, a.Number = false, have.Number
		*have = a
	})
	return m.write(m.state, maxMemory)
}

// write replaces the file, and returns when the new one is on the disk.
func (m *memory) write(s state, room int) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if len(text) > room {
		return errNoRoom
	}
	dir := filepath.Dir(m.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	next := m.path + ".next"
	f, err := system.TakeFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(next, m.path)
	}
	if err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
