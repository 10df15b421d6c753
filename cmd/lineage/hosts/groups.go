package hosts

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v4"

	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

// Group is an entry of hosts.yaml: how some hosts are reached.
type Group struct {
	Transport string   `yaml:"transport"` // ssh, the default, or nats
	Servers   []string `yaml:"servers"`   // of NATS, as tls://nats.example.org:4222
	Nkey      string   `yaml:"nkey"`      // a file with the seed of the operator's nkey
	Creds     string   `yaml:"creds"`     // a file with the operator's JWT and seed, in place of nkey
	CA        string   `yaml:"ca"`        // a file with the certificates that are trusted, in place of the system's
	Name      string   `yaml:"name"`      // the operator's in subjects; default the user name
	Hosts     []string `yaml:"hosts"`     // of nats: default those that are there

	Key string `yaml:"-"` // its name in the file
}

// Flag is the value of -H: hosts separated by commas, and groups: @NAME, or @NAME:HOST for one host over the servers
// of the group.
type Flag struct {
	List           // hosts that ssh reaches, each once
	Groups []Group // whose hosts NATS servers reach

	Env func(string) string
}

func (f *Flag) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		if err := f.add(word); err != nil {
			return fmt.Errorf("hosts or @GROUP; %w", err)
		}
	}
	return nil
}

func (f *Flag) add(word string) error {
	name, ok := strings.CutPrefix(word, "@")
	if !ok {
		return f.List.add(word)
	}
	name, host, one := strings.Cut(name, ":")
	file := groupsFile(f.Env)
	g, err := group(file, name)
	if one && err == nil {
		g.Hosts = []string{host}
		err = g.check(file)
	}
	switch {
	case err != nil:
		return err
	case g.Transport == "nats":
		f.Groups = append(f.Groups, g)
		return nil
	}
	return f.List.add(g.Hosts...)
}

// groupsFile is the user's file, and else that of the host.
func groupsFile(env func(string) string) string {
	if file := env("LINEAGE_HOSTS"); file != "" {
		return file
	}
	if dir, err := os.UserConfigDir(); err == nil {
		file := filepath.Join(dir, "lineage/hosts.yaml")
		if _, err := os.Lstat(file); err == nil {
			return file
		}
	}
	return "/etc/lineage/hosts.yaml"
}

func group(file, name string) (Group, error) {
	var all map[string]Group
	text, err := read(file)
	if err == nil && len(bytes.TrimSpace(text)) > 0 {
		err = yaml.Load(text, &all, yaml.WithKnownFields())
	}
	if err != nil {
		return Group{}, fmt.Errorf("%s: %w", file, err)
	}
	g, ok := all[name]
	if !ok {
		return Group{}, fmt.Errorf("%s has no group %q, only %s", file, name,
			strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	g.Key = name
	return g, g.check(file)
}

// mostBytes is how large the file may be.
const mostBytes = 1 << 20

// read refuses a file that others could have written: it names servers, and what is run there.
func read(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO may have no writer
	if bad, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, bad.Err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	switch {
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case owner != 0 && int(owner) != os.Geteuid():
		return nil, fmt.Errorf("belongs to uid %d; must be yours or root's", owner)
	case info.Mode()&0o022 != 0:
		return nil, fmt.Errorf("others can write it; use chmod go-w %s", file)
	case info.Size() > mostBytes:
		return nil, errors.New("larger than 1 MiB")
	}
	return io.ReadAll(io.LimitReader(f, mostBytes))
}

func (g *Group) check(file string) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: group %s: %s", file, g.Key, fmt.Sprintf(format, args...))
	}
	switch {
	case g.Transport == "nats" && len(g.Servers) == 0:
		return bad("servers is missing")
	case g.Transport != "nats" && g.Transport != "ssh" && g.Transport != "":
		return bad("invalid transport %q: must be ssh or nats", g.Transport)
	case g.Transport != "nats" && (len(g.Servers) > 0 || g.Nkey+g.Creds+g.CA+g.Name != ""):
		return bad("servers, nkey, creds, ca and name need transport: nats")
	case g.Transport != "nats" && len(g.Hosts) == 0:
		return bad("hosts is missing")
	}
	for _, name := range g.Hosts {
		if check(name) != nil || name[0] == '@' || strings.Contains(name, ",") {
			return bad("invalid host %q", name)
		}
	}
	return nil
}

// Link is how the servers of a group are reached, by that name if the group has none.
func (g *Group) Link(name string) (*service.LinkOptions, error) {
	o := &service.LinkOptions{Servers: g.Servers, Nkey: g.Nkey, Creds: g.Creds,
		CA: g.CA, Name: cmp.Or(g.Name, name)}
	if err := o.Check(); err != nil {
		return nil, cli.Usage("hosts.yaml: %s", strings.ReplaceAll(err.Error(), "--", ""))
	}
	return o, nil
}
