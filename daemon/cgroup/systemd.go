//go:build linux

package cgroup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// systemd is the Maker of hosts with systemd: a transient slice, and in it a scope, the leaf. It writes no file.
type systemd struct {
	mount string // of cgroup v2
	proc  procfs.FS
}

const (
	bus     = "/run/dbus/system_bus_socket" // whatever the environment says
	timeout = 25 * time.Second              // of one method; D-Bus has the same for a call
	maxName = 255                           // of a unit
)

// booted reports whether systemd is the host's service manager, as sd_booted(3) does.
func booted() bool {
	_, err := os.Lstat("/run/systemd/system")
	return err == nil
}

// ask connects to systemd for f.
func (s *systemd) ask(f func(context.Context, *dbus.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := dbus.NewConnection(func() (*godbus.Conn, error) {
		socket, err := new(net.Dialer).DialContext(ctx, "unix", bus)
		if err != nil {
			return nil, err
		}
		deadline, _ := ctx.Deadline()
		_ = socket.SetDeadline(deadline) // a socket that is open has one
		c, err := godbus.NewConn(socket, godbus.WithContext(ctx))
		if err != nil {
			return nil, errors.Join(err, socket.Close())
		}
		if err = c.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err == nil {
			err = c.Hello()
		}
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	})
	if err == nil {
		defer conn.Close()
		err = f(ctx, conn)
	}
	var said godbus.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("systemd has not answered on %s within %v", bus, timeout)
	case conn == nil, errors.As(err, &said):
		return fmt.Errorf("systemd: %w", err)
	}
	return err
}

// done waits until the job is over that start has begun.
func done(ctx context.Context, unit string, start func(over chan<- string) (int, error)) error {
	over := make(chan string, 1)
	_, err := start(over)
	if is(err, "UnitExists") {
		return fmt.Errorf("%s is there already: a daemon that died has left it", unit)
	}
	if err != nil {
		return err
	}
	select {
	case result := <-over:
		if result != "done" {
			return fmt.Errorf("the job for %s: %s", unit, result)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func property(name string, value any) dbus.Property {
	return dbus.Property{Name: name, Value: godbus.MakeVariant(value)}
}

// limits are the properties for them; tasks are those that it may have at most.
func limits(l *api.Limits, tasks uint64) []dbus.Property {
	or := func(n int64) uint64 {
		if n <= 0 {
			return math.MaxUint64 // systemd's infinity
		}
		return uint64(n)
	}
	swap := or(0)
	if l.MemoryBytes > 0 {
		swap = 0
	}
	return []dbus.Property{
		property("MemoryMax", or(l.MemoryBytes)), property("MemoryHigh", or(l.MemoryHighBytes)),
		property("CPUQuotaPerSecUSec", or(int64(l.CPUs*1e6))),
		property("TasksMax", min(or(int64(l.Tasks)), tasks)), property("MemorySwapMax", swap),
		property("IOWeight", or(int64(l.IOWeight))),
	}
}

// Make makes a slice below the innermost one that the root is in, limits it, and starts the scope with the root.
func (s *systemd) Make(root tracer.Identity, l *api.Limits) (group string, err error) {
	cgroup, err := cgroupOf(s.proc, root)
	if err != nil {
		return "", err
	}
	p, err := placeOf(cgroup)
	if err != nil {
		return "", err
	}
	if id, ours := rootOf(p.slice); ours && id == root {
		return "", fmt.Errorf("pid %d is the root of a session with limits", root.PID)
	}
	stem := p.stem(nameOf(root))
	slice := stem + ".slice"
	if len(slice) > maxName {
		return "", fmt.Errorf("%s is below too many sessions with limits: the name of its slice would be %d bytes long",
			p.slice, len(slice))
	}
	tasks, err := leave(s.mount, p.unit, cgroup, p.path)
	if err != nil {
		return "", err
	}
	if err := s.possible(l); err != nil {
		return "", err
	}
	group = filepath.Join("/", p.path, slice)
	made := false
	err = s.ask(func(ctx context.Context, c *dbus.Conn) error {
		if err := keeps(ctx, c, p.unit); err != nil {
			return err
		}
		part := []string{p.unit}
		// Not part of the outer session's scope, which could not start again.
		if _, nested := rootOf(strings.TrimSuffix(p.unit, ".scope")); nested {
			outer, err := c.GetUnitPropertyContext(ctx, p.unit, "PartOf")
			if err != nil {
				return err
			}
			part, _ = outer.Value.Value().([]string)
		}
		if err := hold(ctx, c, slice, nameOf(root)); err != nil {
			return err
		}
		made = true
		// Not at its start: drop-ins for all slices of users take precedence over what it is started with.
		props := append(limits(l, tasks), dbus.PropDescription("Limits of a session of lineage"))
		if err := c.SetUnitPropertiesContext(ctx, slice, true, props...); err != nil {
			return err
		}
		if err := s.inForce(group, l); err != nil {
			return err
		}
		return enter(ctx, c, stem, tasks, part, root.PID)
	})
	if err != nil && made {
		err = errors.Join(err, s.Remove(group))
	}
	return group, err
}

func (s *systemd) possible(l *api.Limits) error {
	return possible(l, func(c string) error { return onHost(s.mount, c) })
}

// elsewhere are the properties of a unit that apply to its cgroup, and how the API shows that there is none.
var elsewhere = map[string]string{
	"Delegate": "false", "DevicePolicy": "auto", "DeviceAllow": "[]",
	"IPAddressDeny": "[]", "IPIngressFilterPath": "[]", "IPEgressFilterPath": "[]",
	"BPFProgram": "[]", "SocketBindDeny": "[]", "NFTSet": "[]",
	"RestrictNetworkInterfaces": "[false []]", "RestrictFileSystems": "[false []]",
}

// keeps fails if a process that leaves the unit would lose a restriction. A unit that manages cgroups itself, as those of
// containers, has restrictions that systemd does not know; the manager of a user can have none.
func keeps(ctx context.Context, c *dbus.Conn, unit string) error {
	kind := "Service"
	if strings.HasSuffix(unit, ".scope") {
		kind = "Scope"
	}
	has, err := c.GetUnitTypePropertiesContext(ctx, unit, kind)
	if err != nil {
		return err
	}
	_, ours := rootOf(strings.TrimSuffix(unit, ".scope"))
	for name, none := range elsewhere {
		value, known := has[name]
		if name == "Delegate" && (ours || strings.HasPrefix(unit, "user@")) {
			continue
		}
		if known && fmt.Sprint(value) != none {
			return fmt.Errorf("%s has %s=%v, which the session would leave: set limits on the unit",
				unit, name, value)
		}
	}
	return nil
}

// hold starts the slice. One that systemd would stop when it is empty is needed by another one: what the session has used
// is read later.
func hold(ctx context.Context, c *dbus.Conn, slice, name string) error {
	unneeded, err := c.GetUnitPropertyContext(ctx, slice, "StopWhenUnneeded")
	if err != nil {
		return err
	}
	unit := slice
	props := []dbus.Property{property("MemoryAccounting", true), property("IOAccounting", true),
		property("TasksAccounting", true)}
	var aux []dbus.PropertyCollection
	if unneeded.Value.Value() == true {
		unit = "lineage_hold" + strings.TrimPrefix(name, "lineage") + ".slice"
		aux = []dbus.PropertyCollection{{Name: slice, Properties: props}}
		props = []dbus.Property{dbus.PropDescription("Keeps " + slice),
			dbus.PropRequires(slice), dbus.PropAfter(slice)}
	}
	return done(ctx, unit, func(over chan<- string) (int, error) {
		return c.StartTransientUnitAux(ctx, unit, "fail", props, aux, over)
	})
}

// enter starts the scope with these processes. It is stopped with the units of which it is part.
func enter(ctx context.Context, c *dbus.Conn, stem string, tasks uint64,
	partOf []string, pids ...uint32) error {
	unit := stem + ".scope"
	props := []dbus.Property{
		dbus.PropDescription("A session of lineage"), dbus.PropSlice(stem + ".slice"),
		property("PIDs", pids), property("PartOf", partOf), property("TasksMax", tasks),
		property("CollectMode", "inactive-or-failed"),
		property("DelegateControllers", []string{}), // only a unit that delegates takes further processes
	}
	return done(ctx, unit, func(over chan<- string) (int, error) {
		return c.StartTransientUnitAux(ctx, unit, "fail", props, nil, over)
	})
}

// inForce fails if the kernel has not got a limit.
func (s *systemd) inForce(group string, l *api.Limits) error {
	for _, k := range knobs {
		now := value(s.mount, group, k.file)
		if !strings.HasSuffix(k.none, k.of(l)) &&
			(now == "" && k.file != swapMax || strings.HasPrefix(now+" ", k.none+" ")) {
			return fmt.Errorf("%s has not got the limit: its %s is %q", filepath.Base(group), k.file, now)
		}
	}
	return nil
}

func units(group string) (stem, slice, scope string) {
	slice = strings.TrimPrefix(filepath.Base(group), "_")
	stem = strings.TrimSuffix(slice, ".slice")
	return stem, slice, stem + ".scope"
}

// tasks is how many the session was allowed before it had limits: its scope keeps that number.
func (s *systemd) tasks(group, scope string) uint64 {
	if n := most(s.mount, filepath.Join(group, scope), "pids.max"); n != math.MaxUint64 {
		return n
	}
	return most(s.mount, group, "pids.max")
}

// Move starts the scope again if it was empty. A process that would lose a limit is not moved.
func (s *systemd) Move(group string, all ...tracer.Identity) error {
	return s.ask(func(ctx context.Context, c *dbus.Conn) (err error) {
		for _, p := range all {
			failed := s.move(ctx, c, group, p)
			if _, gone := cgroupOf(s.proc, p); gone == nil {
				err = errors.Join(err, failed)
			}
		}
		return err
	})
}

func (s *systemd) move(ctx context.Context, c *dbus.Conn, group string, member tracer.Identity) error {
	from, gone := cgroupOf(s.proc, member)
	if gone != nil || strings.HasPrefix(from, group+"/") {
		return nil // it may be in a nested session
	}
	p, err := placeOf(from)
	if err != nil {
		return err
	}
	if _, err := leave(s.mount, p.unit, from, group); err != nil {
		return err
	}
	if err := keeps(ctx, c, p.unit); err != nil {
		return err
	}
	stem, _, scope := units(group)
	err = c.AttachProcessesToUnit(ctx, scope, "", []uint32{member.PID})
	for i := 0; i < 3 && err != nil; i++ { // a scope that is going is in the way once
		if err = enter(ctx, c, stem, s.tasks(group, scope), nil, member.PID); err != nil {
			err = c.AttachProcessesToUnit(ctx, scope, "", []uint32{member.PID})
		}
	}
	return err
}

// Set changes the limits.
func (s *systemd) Set(group string, l *api.Limits) error {
	if err := s.possible(l); err != nil {
		return err
	}
	_, slice, scope := units(group)
	props := limits(l, s.tasks(group, scope))
	if l.CPUs == 0 && !strings.HasPrefix(value(s.mount, group, "cpu.max"), "max") {
		// Else systemd no longer needs the controller, and leaves cpu.max as it is.
		props = append(props, property("CPUWeight", uint64(100)))
	}
	return s.ask(func(ctx context.Context, c *dbus.Conn) error {
		if err := c.SetUnitPropertiesContext(ctx, slice, true, props...); err != nil {
			return err
		}
		return s.inForce(group, l)
	})
}

// Freeze stops what is in the slice, nested sessions too, or lets it run again (systemd 246).
func (s *systemd) Freeze(group string, frozen bool) error {
	_, slice, _ := units(group)
	return s.ask(func(ctx context.Context, c *dbus.Conn) error {
		if frozen {
			return c.FreezeUnit(ctx, slice)
		}
		return c.ThawUnit(ctx, slice)
	})
}

// Remove stops the slice, and the empty scope. Systemd kills what is in a scope that it stops: the kernel is asked first.
func (s *systemd) Remove(group string) error {
	_, slice, scope := units(group)
	if strings.Contains(value(s.mount, group, "cgroup.events"), "populated 1") {
		return fmt.Errorf("a process is in %s", slice)
	}
	below, _ := os.ReadDir(filepath.Join(s.mount, group)) // gone: nothing is below it
	other := func(d os.DirEntry) bool { return d.IsDir() && d.Name() != scope }
	if i := slices.IndexFunc(below, other); i >= 0 {
		return fmt.Errorf("%s is in %s", below[i].Name(), slice)
	}
	return s.ask(func(ctx context.Context, c *dbus.Conn) error {
		err := done(ctx, slice, func(over chan<- string) (int, error) {
			return c.StopUnitContext(ctx, slice, "replace", over)
		})
		if is(err, "NoSuchUnit") {
			return nil
		}
		return err
	})
}

// is reports whether systemd has answered with this error.
func is(err error, name string) bool {
	var e godbus.Error
	return errors.As(err, &e) && e.Name == "org.freedesktop.systemd1."+name
}
