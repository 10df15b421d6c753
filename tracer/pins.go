//go:build linux

package tracer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/lineage-ebpf/lineage/bpf"
)

// Pins: each kernel side has one directory under the tracer's, made as unfinished and renamed when it is complete, and
// renamed to retired before it is removed: a crash leaves nothing that looks like one. damaged has missing pins.
const (
	unfinished = "unfinished"
	retired    = "retired"
	damaged    = "damaged"

	mapPin     = "map_"
	programPin = "program_"
	linkPin    = "link_"
)

// completeName matches the name of a complete kernel side: the ABI of its object, and a
// hash of its configuration. The first versions had no hash.
var completeName = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{8})?$`)

// pinsName names the pins of a kernel side: equal names mean equal layouts, sizes,
// programs and configuration.
func pinsName(spec *ebpf.CollectionSpec) (string, error) {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
		fmt.Fprintln(sum, "program", name)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Maps)) {
		m := spec.Maps[name]
		fmt.Fprintln(sum, "map", name, m.MaxEntries, m.Flags)
	}
	var config bpf.LineageConfig
	if err := spec.Variables[bpf.LineageVarConfig].Get(&config); err != nil {
		return "", fmt.Errorf("name the pins: %w", err)
	}
	fmt.Fprintf(sum, "config %+v\n", config)
	return bpf.ABI() + "-" + hex.EncodeToString(sum.Sum(nil)[:4]), nil
}

// complete lists the complete kernel sides under dir.
func complete(dir string) (names []string, err error) {
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read pins: %w", err)
	}
	for _, d := range found {
		if completeName.MatchString(d.Name()) {
			names = append(names, d.Name())
		}
	}
	return names, nil
}

func pinPath(dir, kind, name string) string {
	return filepath.Join(dir, kind+strings.TrimPrefix(name, "."))
}

// pin publishes a kernel side that is loaded and attached.
func (t *Tracer) pin(links map[string]link.Link) error {
	tmp := filepath.Join(t.dir, unfinished)
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", tmp, err)
	}
	// Another process may have made it since the check.
	if err := checkRoots(t.dir, false); err != nil {
		return err
	}
	all := map[string]interface{ Pin(string) error }{}
	for name, m := range t.maps {
		all[pinPath(tmp, mapPin, name)] = m
	}
	for name, p := range t.programs {
		all[pinPath(tmp, programPin, name)] = p
	}
	for name, l := range links {
		all[pinPath(tmp, linkPin, name)] = l
	}
	err := func() error {
		for path, p := range all {
			if err := p.Pin(path); err != nil {
				return fmt.Errorf("pin %s: %w", path, err)
			}
		}
		if err := os.Rename(tmp, filepath.Join(t.dir, t.pins)); err != nil {
			return fmt.Errorf("publish the pins: %w", err)
		}
		return nil
	}()
	if err != nil {
		os.RemoveAll(tmp)
		os.Remove(t.dir) // if it is empty
	}
	return err
}

// openPins opens our kernel side if it is pinned. Otherwise it makes one, from the
// newest that is there. All others are then retired. missed: a part was missing, so
// births may have been missed.
func (t *Tracer) openPins(k *kernel, spec *ebpf.CollectionSpec) (missed bool, err error) {
	ours, others, err := survey(t.dir, t.pins)
	if err != nil {
		return false, err
	}
	if ours {
		err := t.openComplete(spec)
		if err == nil {
			return false, t.retire(others)
		}
		if !errors.Is(err, os.ErrNotExist) {
			return false, err
		}
		// A part was unpinned: what happened meanwhile is unknown.
		t.closeObjects()
		t.degrade("programs loaded again", err)
		if err := replace(filepath.Join(t.dir, t.pins), filepath.Join(t.dir, damaged)); err != nil {
			return false, err
		}
		others = append([]string{damaged}, others...)
	}
	from, err := openPrevious(t.dir, others)
	if err != nil {
		return false, err
	}
	defer from.Close()
	if err := t.load(k, spec, from); err != nil {
		return false, err
	}
	return slices.Contains(others, damaged), t.retire(others)
}

// survey returns what is pinned under dir: whether ours is, and the others, newest
// first. It removes what a crash left half made or half removed.
func survey(dir, ours string) (bool, []string, error) {
	found, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, fmt.Errorf("read pins: %w", err)
	}
	var others []string
	have := false
	age := map[string]int64{}
	for _, d := range found {
		name := d.Name()
		switch {
		case name == ours:
			have = true
		case name == unfinished, name == retired:
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				return false, nil, fmt.Errorf("remove %s pins: %w", name, err)
			}
		case name == damaged, completeName.MatchString(name):
			info, err := d.Info()
			if err != nil {
				return false, nil, fmt.Errorf("read pins: %w", err)
			}
			age[name] = info.ModTime().UnixNano()
			others = append(others, name)
		}
	}
	slices.SortFunc(others, func(a, b string) int { return int(age[b] - age[a]) })
	return have, others, nil
}

// openComplete opens every pin of ours; [os.ErrNotExist] if one is missing.
func (t *Tracer) openComplete(spec *ebpf.CollectionSpec) error {
	dir := filepath.Join(t.dir, t.pins)
	for name := range spec.Maps {
		m, err := ebpf.LoadPinnedMap(pinPath(dir, mapPin, name), nil)
		if err != nil {
			return fmt.Errorf("open pinned map %s: %w", name, err)
		}
		t.maps[name] = m
	}
	for name := range spec.Programs {
		p, err := ebpf.LoadPinnedProgram(pinPath(dir, programPin, name), nil)
		if err != nil {
			return fmt.Errorf("open pinned program %s: %w", name, err)
		}
		t.programs[name] = p
	}
	for _, name := range slices.Concat(hooks, trampolines) {
		if spec.Programs[name] == nil {
			continue
		}
		if _, err := os.Stat(pinPath(dir, linkPin, name)); err != nil {
			return fmt.Errorf("open pinned link %s: %w", name, err)
		}
	}
	t.features.Refuses, t.features.RefusesSignals = t.pinnedRefuser(forkRefusal), t.pinnedRefuser(signalRefusal)
	return t.openShared(spec)
}

// retire detaches and unpins other kernel sides.
func (t *Tracer) retire(names []string) error {
	for _, name := range names {
		to := filepath.Join(t.dir, retired)
		if err := replace(filepath.Join(t.dir, name), to); err != nil {
			return err
		}
		if err := os.RemoveAll(to); err != nil {
			return fmt.Errorf("unpin %s: %w", name, err)
		}
	}
	return nil
}

// replace renames a directory of pins; to is removed first.
func replace(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("remove %s: %w", to, err)
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("rename pins: %w", err)
	}
	return nil
}

// Unload detaches and unpins everything under dir. No process is signalled; what the
// kernel knew of sessions is lost. An empty or missing dir is not an error.
func Unload(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("unpin %s: %w", dir, err)
	}
	return nil
}

// Live counts the sessions pinned under dir, by any version, that have a member and are
// not named except. A session whose members all died while no daemon ran is over,
// whatever its state. [ErrOtherABI]: they cannot be read.
func Live(dir, except string) (int, error) {
	_, names, err := survey(dir, "")
	if err != nil {
		return 0, err
	}
	e, err := openPrevious(dir, names)
	if e == nil {
		return 0, err
	}
	defer e.Close()
	inhabited, err := e.Inhabited()
	if err != nil {
		return 0, err
	}
	live := 0
	err = e.Sessions(func(_ uint32, s *bpf.LineageSession, c *bpf.LineageCtl) error {
		name, _, _ := strings.Cut(string(c.Name[:]), "\x00")
		if inhabited[s.Id] && State(c.Status&0xff) != StateDissolved && (except == "" || name != except) {
			live++
		}
		return nil
	})
	return live, err
}

// Memberships returns the directories of pins beside dir, and dir itself, whose kernel
// side has the process as a member of a session. Directories that cannot be read are
// left out: they prove nothing.
func Memberships(dir string, p Identity) ([]string, error) {
	beside, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "lineage*"))
	if err != nil {
		return nil, fmt.Errorf("look for other instances: %w", err)
	}
	var in []string
	for _, d := range beside {
		if checkRoots(d, false) != nil {
			continue // any user could forge what is there
		}
		names, _ := complete(d)
		e, _ := openPrevious(d, names)
		if e == nil {
			continue
		}
		if e.Has(p) {
			in = append(in, d)
		}
		e.Close()
	}
	return in, nil
}
