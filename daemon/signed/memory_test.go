//go:build linux

package signed

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func (w *world) file() string { return filepath.Join(w.dir, "state", "commands.json") }

// refusal fails the test unless the command is refused for the reason.
func (w *world) refusal(s *api.SignedCommand, why string) {
	w.Helper()
	if err := w.carryOut(s); err == nil || !strings.Contains(err.Error(), why) {
		w.Errorf("error %v, want %q", err, why)
	}
}

// TestOnce: a command acts once, also if two callers bring it at once, for the next daemon, and for one that has lost the record.
func TestOnce(t *testing.T) {
	w := newWorld(t)
	s := w.sign(w.command().Text(), "ann")
	o, err := w.check(s)
	require.NoError(t, err, w.carryOut(s))
	if _, err := w.accept(o, "boot", 1000, nil); err == nil || !strings.Contains(err.Error(), "it was accepted before") {
		t.Errorf("of another caller, checked before: %v", err)
	}
	w.refusal(s, "it was accepted before")
	w.start()
	w.refusal(s, "it was accepted before")
	if a, ok := w.memory.find(mustParse(t, s).ID); !ok || a.UID != 1000 || a.Boot != "boot" || len(a.Sessions) != 1 {
		t.Errorf("found %+v, %v", a, ok)
	}
	require.NoError(t, os.Remove(w.file()))
	w.start()
	w.refusal(s, "are not remembered here")
	w.refusal(w.sign(w.command().Text(), "ann"), "are not remembered here")
	w.pass(api.MaxValidity + skew)
	w.refusal(s, "it expired at")
	require.NoError(t, w.carryOut(w.sign(w.command().Text(), "ann")))
	if _, ok := w.memory.find(mustParse(t, s).ID); ok {
		t.Error("found a command that is forgotten")
	}
}

// TestClock: a clock that went back makes no command valid that has expired, and one that was set forward is believed at once.
func TestClock(t *testing.T) {
	w := newWorld(t)
	early := w.sign(w.command().Text(), "ann")
	w.wall = w.wall.Add(time.Hour)
	w.refusal(early, "it expired at")
	w.wall = w.wall.Add(-time.Hour)
	w.pass(time.Hour)
	w.wall = w.wall.Add(-time.Hour)
	w.refusal(early, "it expired at") // counted since the start
	w.wall = w.wall.Add(time.Hour)
	require.NoError(t, w.carryOut(w.sign(w.command().Text(), "ann")))
	w.wall = w.wall.Add(-time.Hour)
	w.start()
	w.refusal(early, "the clock of the host went back")
}

// TestClockInSteps: a clock that goes back a little with each restart is noticed as if it had gone at once.
func TestClockInSteps(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.carryOut(w.sign(w.command().Text(), "ann")))
	for range 2 {
		w.wall = w.wall.Add(-skew * 2 / 3)
		w.start()
		if w.memory.unfit(mustParse(t, w.sign(w.command().Text(), "ann")), w.now()) == "" {
			require.NoError(t, w.carryOut(w.sign(w.command().Text(), "ann")))
		}
	}
	w.refusal(w.sign(w.command().Text(), "ann"), "the clock of the host went back")
}

// TestFullAtStart: a daemon that cannot make a record when it starts takes commands once it can, after as long as with one.
func TestFullAtStart(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, os.Remove(w.file()), os.Mkdir(w.file()+".next", 0o700))
	w.start()
	w.refusal(w.sign(w.command().Text(), "ann"), "are not remembered here")
	w.pass(api.MaxValidity + 2*skew)
	w.refusal(w.sign(w.command().Text(), "ann"), "it cannot be remembered")
	require.NoError(t, os.Remove(w.file()+".next"))
	require.NoError(t, w.carryOut(w.sign(w.command().Text(), "ann")))
}

// TestRecord: a record that cannot be read or written, or is full, refuses every command.
func TestRecord(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(w *world)
		why   string
	}{
		"not JSON": {func(w *world) { require.NoError(w, os.WriteFile(w.file(), []byte("{"), 0o600)) }, "cannot be used"},
		"a link": {func(w *world) {
			require.NoError(w, os.Rename(w.file(), w.file()+".x"), os.Symlink(w.file()+".x", w.file()))
		}, "cannot be used"},
		"no folder": {func(w *world) {
			require.NoError(w, os.RemoveAll(filepath.Dir(w.file())), os.WriteFile(filepath.Dir(w.file()), nil, 0o600))
		}, "cannot be used"},
		"a folder in the way of the next": {func(w *world) { require.NoError(w, os.Mkdir(w.file()+".next", 0o700)) }, "cannot be remembered"},
		"full": {func(w *world) {
			o, err := w.check(w.sign(w.command().Text(), "ann"))
			require.NoError(w, err)
			_, err = w.accept(o, "boot", 0, make([]string, (maxMemory-forHalts)/3-300)) // empty words of 3 bytes
			require.NoError(w, err)
			for n := 0; n < 10 && w.carryOut(w.sign(w.command().Text(), "ann")) == nil; n++ {
			}
		}, "too many commands"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.spoil(w)
			w.start()
			w.refusal(w.sign(w.command().Text(), "ann"), c.why)
		})
	}
}

// TestEarlyClock: a record that is lost while the clock is early lets no command act twice, also after another start of the host.
func TestEarlyClock(t *testing.T) {
	w := newWorld(t)
	s := w.sign(w.command().Text(), "ann")
	require.NoError(t, w.carryOut(s), os.Remove(w.file()))
	w.wall = w.wall.Add(-time.Hour)
	w.start()
	w.wall = w.wall.Add(time.Hour)
	w.refusal(s, "record of earlier commands is new")
	w.pass(api.MaxValidity - time.Second)
	w.boot, w.monotonic = "next", 0
	w.start()
	w.refusal(w.sign(w.command().Text(), "ann"), "record of earlier commands is new")
	w.pass(forgotten)
	require.NoError(t, w.carryOut(w.sign(w.command().Text(), "ann")))
	w.boot = "third"
	w.start()
	require.NoError(t, w.carryOut(w.sign(w.command().Text(), "ann")))
}

// TestRoomForHalts: commands to large fleets do not fill the record, and one that is full takes a halt.
func TestRoomForHalts(t *testing.T) {
	w := newWorld(t)
	w.rules("version: 1\noperators: [{name: ann, verbs: [end, halt]}]\n")
	c := w.command()
	for len(c.Hosts) < 256 {
		c.Hosts = append(c.Hosts, w.host[:len(w.host)-3]+strconv.Itoa(100+len(c.Hosts)))
	}
	o, err := w.check(w.sign(c.Text(), "ann"))
	require.NoError(t, err)
	a, err := w.accept(o, "boot", 0, nil)
	require.NoError(t, err)
	require.Equal(t, strings.Join(a.Hosts, " "), w.host)
	o.ID = api.NewCommandID()
	_, err = w.accept(o, "boot", 0, make([]string, (maxMemory-forHalts)/3-1000))
	require.NoError(t, err)
	for err == nil {
		err = w.carryOut(w.sign(w.command().Text(), "ann"))
	}
	require.Contains(t, err.Error(), "too many commands")
	c = w.command()
	c.Verb, c.Mode, c.Sessions, c.All = api.VerbHalt, api.ModeHalt, nil, true
	require.NoError(t, w.carryOut(w.sign(c.Text(), "ann")))
}

// TestCarried: the result of a command is known even if the disk is full. The next daemon knows only what was written.
func TestCarried(t *testing.T) {
	w := newWorld(t)
	c := w.command()
	c.Verb, c.Mode, c.Sessions, c.All = api.VerbHalt, api.ModeHalt, nil, true
	w.rules("version: 1\noperators: [{name: ann, verbs: halt}]\n")
	s := w.sign(c.Text(), "ann")
	o, err := w.check(s)
	require.NoError(t, err)
	a, err := w.accept(o, "boot", 1000, []string{})
	require.NoError(t, err, os.Mkdir(w.file()+".next", 0o700))
	a.Sessions = []string{"s1"}
	if w.memory.carried(a) == nil {
		t.Error("it was written")
	}
	if a, _ := w.memory.find(c.ID); a.Pending || len(a.Sessions) != 1 {
		t.Errorf("found %+v", a)
	}
	w.start()
	if a, _ := w.memory.find(c.ID); !a.Pending || len(a.Sessions) != 0 {
		t.Errorf("the next daemon found %+v", a)
	}
}

// TestForgetsForRoom: commands that expired more than an hour ago give way to others.
func TestForgetsForRoom(t *testing.T) {
	w := newWorld(t)
	carry := func() error {
		o, err := w.check(w.sign(w.command().Text(), "ann"))
		require.NoError(t, err)
		_, err = w.accept(o, "boot", 0, make([]string, (maxMemory-forHalts)/3-1000))
		return err
	}
	require.NoError(t, carry())
	w.pass(api.MaxValidity + atLeast/2)
	require.Contains(t, carry().Error(), "too many commands")
	w.pass(atLeast)
	require.NoError(t, carry())
	require.Equal(t, len(w.memory.state.Commands), 1)
}

// TestOver: a command that is over has a number once that is on the disk, and a later one a greater one whatever the clock does.
func TestOver(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		require.NoError(t, w.carryOut(w.sign(w.command().Text(), "ann")))
	}
	all := w.memory.all()
	require.NoError(t, os.Mkdir(w.file()+".next", 0o700))
	if w.memory.over(all[1], w.wall) == nil || w.memory.all()[1].Number != 0 {
		t.Error("numbered, and not written")
	}
	require.NoError(t, os.Remove(w.file()+".next"), w.memory.over(all[1], w.wall), w.memory.over(all[0], w.wall.Add(-time.Hour)))
	require.NoError(t, w.memory.carried(all[0])) // as it was read before
	w.start()
	if all = w.memory.all(); all[1].Number != w.wall.UnixMicro() || all[0].Number != all[1].Number+1 {
		t.Errorf("%+v", all)
	}
}

// TestForgets: commands are forgotten a week after they have expired, and do not act then either.
func TestForgets(t *testing.T) {
	w := newWorld(t)
	first := w.sign(w.command().Text(), "ann")
	require.NoError(t, w.carryOut(first))
	w.pass(api.MaxValidity + remembered)
	require.NoError(t, w.carryOut(w.sign(w.command().Text(), "ann")))
	require.Equal(t, len(w.memory.state.Commands), 1)
	w.wall = w.wall.Add(-api.MaxValidity - remembered)
	w.memory.state.Latest = time.Time{} // as if only the floor were left
	w.checker.began, w.since = w.wall, uint64(w.monotonic)
	w.refusal(first, "are not remembered here")
}

// TestHostileBus: whatever a bus does with commands, and the clock and the daemon beside it, no
// command acts twice, late, or unless it is signed. LNGTEST_MESSAGES is how many it delivers.
func TestHostileBus(t *testing.T) {
	messages := 3000
	if n, err := strconv.Atoi(os.Getenv("LNGTEST_MESSAGES")); err == nil {
		messages = n
	}
	delivered, acted, restarts := 0, 0, 0
	for seed := 0; delivered < messages; seed++ {
		w := newWorld(t)
		truth := w.wall // no fault changes it
		var bus []*api.SignedCommand
		acts := map[string]int{}
		genuine := map[string]time.Time{} // text → until when
		draw := rapid.Custom(func(t *rapid.T) [4]int {
			return [4]int{
				rapid.IntRange(0, 99).Draw(t, "what"),
				rapid.IntRange(0, 1<<20).Draw(t, "which"),
				rapid.IntRange(0, 600).Draw(t, "seconds"),
				rapid.IntRange(0, 1<<20).Draw(t, "where"),
			}
		})
		for step := 0; step < 500 && delivered < messages; step++ {
			d := draw.Example(seed*500 + step)
			switch what := d[0]; {
			case what < 15 || len(bus) == 0: // an operator, whose clock is right, sends one
				c := w.command()
				c.Issued, c.NotAfter = truth, truth.Add(time.Duration(1+d[2]%300)*time.Second)
				s := w.sign(c.Text(), []string{"ann", "ben", "cat"}[d[3]%3])
				if d[3]%3 != 1 { // ben needs another signature
					genuine[s.Command] = c.NotAfter
				}
				bus = append(bus, s)
			case what < 25:
				w.pass(time.Duration(d[2]) * time.Second)
				truth = truth.Add(time.Duration(d[2]) * time.Second)
			case what < 30: // the wall clock is set back; only a restart could believe it
				w.wall = truth.Add(-time.Duration(d[2]) * time.Second)
			case what < 33:
				w.wall = truth
				w.start()
				restarts++
			default: // the bus delivers one: as it is, or changed
				s := *bus[d[1]%len(bus)]
				s.Signatures = append([]string(nil), s.Signatures...)
				switch at := d[3]; {
				case what < 60:
				case what < 70: // truncated
					s.Command = s.Command[:at%len(s.Command)]
				case what < 80: // a byte changed
					b := []byte(s.Command)
					b[at%len(b)] ^= byte(1 + at%255)
					s.Command = string(b)
				case what < 90: // the signature of another
					s.Signatures = bus[at%len(bus)].Signatures
				default: // a byte of the signature changed
					b := []byte(s.Signatures[0])
					b[at%len(b)] ^= byte(1 + at%255)
					s.Signatures[0] = string(b)
				}
				delivered++
				if w.carryOut(&s) != nil {
					continue
				}
				acted++
				until, signed := genuine[s.Command]
				acts[s.Command]++
				if !signed || acts[s.Command] > 1 || !truth.Before(until) {
					t.Fatalf("seed %d step %d: acted on %s: signed %v, %d times, at %v", seed, step, s.Command, signed, acts[s.Command], truth)
				}
			}
		}
	}
	if acted < messages/100 {
		t.Errorf("only %d of %d messages acted", acted, delivered)
	}
	t.Logf("figure: %d messages, %d acted, %d restarts", delivered, acted, restarts)
}

func mustParse(t *testing.T, s *api.SignedCommand) *api.Command {
	t.Helper()
	c, err := api.ParseCommand(s.Command)
	require.NoError(t, err)
	return c
}
