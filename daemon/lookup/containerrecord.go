//go:build linux

package lookup

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
)

const (
	maxRecord = 4 << 20  // bytes of a bundle's configuration, and of docker's record
	maxText   = 256      // bytes of a name
	maxSpec   = 16 << 10 // bytes of a container's environment, and of its labels; what does not fit is not known
)

// bundle is what is read of an OCI bundle's config.json.
type bundle struct {
	Mounts []struct {
		Destination, Source string
	}
	Annotations map[string]string
	Process     struct{ Env []string }
}

// read adds what the runtime has on record to a container.
func (f *ContainerFinder) read(supervisor uint32, c *lineage.Container) (found FoundContainer, err error) {
	if f.conmon(supervisor) {
		c, err = f.podman(supervisor, c)
		return FoundContainer{Container: c}, err
	}
	key := f.proc.Key(supervisor)
	b, err := decodeRoots[bundle](key, f.bundle(supervisor, c.ID)+"/config.json")
	if err != nil {
		return FoundContainer{}, err
	}
	found = FoundContainer{Container: c, Env: within(b.Process.Env)}
	for _, m := range b.Mounts {
		if m.Destination == "/etc/hostname" && path.Base(path.Dir(m.Source)) == c.ID {
			found.Labels, err = docker(key, f.proc.Path(supervisor, "root")+path.Dir(m.Source), c)
			return found, err
		}
	}
	c.Runtime = cmp.Or(c.Runtime, "containerd") // whose shim it is
	const cri = "io.kubernetes.cri."
	if sandbox := b.Annotations[cri+"sandbox-id"]; sandbox != "" {
		c.Name, c.Image = bounded(b.Annotations[cri+
			"container-name"]), bounded(b.Annotations[cri+"image-name"])
		c.Pod, c.Namespace = bounded(b.Annotations[cri+"sandbox-name"]),
			bounded(b.Annotations[cri+"sandbox-namespace"])
	}
	return found, nil
}

// docker adds docker's record, in the directory that also has the container's /etc/hostname, and returns the labels.
func docker(key procfs.Key, dir string, c *lineage.Container) (labels []string, err error) {
	record, err := decodeRoots[struct {
		ID, Name string
		Created  time.Time
		Config   struct {
			Image  string
			Labels map[string]string
		}
	}](key, dir+"/config.v2.json")
	if err != nil {
		return nil, err
	}
	if record.ID != c.ID {
		return nil, errOther
	}
	c.Runtime, c.Name, c.Image, c.Created = "docker", bounded(strings.TrimPrefix(record.Name,
		"/")), bounded(record.Config.Image), record.Created
	for _, name := range slices.Sorted(maps.Keys(record.Config.Labels)) {
		labels = append(labels, name+"="+record.Config.Labels[name])
	}
	return within(labels), nil
}

// within are those texts that fit into the limit.
func within(all []string) (some []string) {
	left := maxSpec
	for _, text := range all {
		if len(text) <= left {
			left -= len(text)
			some = append(some, text)
		}
	}
	return some
}

// podman reads the arguments of conmon: -c ID -n NAME.
func (f *ContainerFinder) podman(conmon uint32, c *lineage.Container) (*lineage.Container, error) {
	b, err := f.proc.Read(conmon, "cmdline", procfs.MaxFile)
	if err != nil {
		return nil, err
	}
	argv := procfs.SplitArgv(b)
	value := func(option string) string {
		if i := slices.Index(argv, option); i >= 0 && i+1 < len(argv) {
			return argv[i+1]
		}
		return ""
	}
	if value("-c") != c.ID {
		return nil, errOther
	}
	if c.Runtime == "podman" { // CRI-O's conmon has its own name for the container
		c.Name = bounded(value("-n"))
	}
	return c, nil
}

// bounded is a text, "" if it is too long to be a name.
func bounded(text string) string {
	if len(text) > maxText {
		return ""
	}
	return text
}

// decodeRoots decodes a file that only root can have written.
func decodeRoots[T any](of procfs.Key, file string) (record T, err error) {
	b, err := readRoots(of, file, maxRecord)
	if err != nil {
		return record, err
	}
	if err := json.Unmarshal(b, &record); err != nil {
		return record, fmt.Errorf("decode %s: %w", file, err)
	}
	return record, nil
}

var (
	errNotRoots = errors.New("not root's alone")
	errSize     = errors.New("too large")
)

// readRoots reads a file that only root can have written. A process chooses its working directory, and with
// it the file, which may be of a dead file server.
func readRoots(of procfs.Key, file string, limit int64) ([]byte, error) {
	return procfs.Bounded(of, func() ([]byte, error) {
		f, err := procfs.OpenRegular(file, unix.O_NOFOLLOW, func(st *unix.Stat_t) error {
			switch {
			case !procfs.Ours(st.Uid) || st.Mode&0o022 != 0:
				return errNotRoots
			case st.Size > limit:
				return errSize
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if system.CheckRoots(f) != nil {
			return nil, errNotRoots
		}
		b, err := io.ReadAll(io.LimitReader(f, limit))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		return b, nil
	})
}
