//go:build linux

package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/daemon/broker"
)

// procfs is where procfs is mounted. What it says of a PID holds only if the
// caller confirms afterwards that the PID is still the same process.
type procfs string

// initPIDNamespace is the initial PID namespace's link (PROC_PID_INIT_INO).
const initPIDNamespace = "pid:[4026531836]"

const (
	maxProcFile = 64 << 10
	maxArgv     = 4 << 10 // of a command line that is only shown
)

func (p procfs) path(pid uint32, name string) string {
	return filepath.Join(string(p), strconv.FormatUint(uint64(pid), 10), name)
}

func (p procfs) read(pid uint32, name string, limit int64) ([]byte, error) {
	f, err := os.Open(p.path(pid, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

var errMalformed = errors.New("malformed")

// stat gives the state letter and the real parent's PID.
func (p procfs) stat(pid uint32) (task byte, parent uint32, err error) {
	b, err := p.read(pid, "stat", maxProcFile)
	if err != nil {
		return 0, 0, err
	}
	// The comm may hold anything, ") R 1" too: the last ")" ends it.
	_, rest, ok := bytesCutLast(b, ')')
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 2 {
		return 0, 0, fmt.Errorf("read stat of pid %d: %w", pid, errMalformed)
	}
	ppid, err := strconv.ParseUint(string(fields[1]), 10, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("read stat of pid %d: %w", pid, errMalformed)
	}
	return fields[0][0], uint32(ppid), nil
}

// startCode is where in stat, behind the comm, the address of the code is. An
// exec sets it when it has put the environment into its place, for programs that
// are no scripts (fs/binfmt_elf.c); who may not know it reads 1.
const startCode = 23

// loaded reports that a process is not within its exec, where its environment
// reads as empty.
func (p procfs) loaded(pid uint32) bool {
	b, err := p.read(pid, "stat", maxProcFile)
	_, rest, _ := bytesCutLast(b, ')')
	fields := bytes.Fields(rest)
	return err == nil && (len(fields) <= startCode || string(fields[startCode]) != "0")
}

func bytesCutLast(b []byte, sep byte) (before, after []byte, ok bool) {
	i := bytes.LastIndexByte(b, sep)
	if i < 0 {
		return b, nil, false
	}
	return b[:i], b[i+1:], true
}

// terminal gives the POSIX session and the controlling terminal's device
// number, 0 if there is none.
func (p procfs) terminal(pid uint32) (sid uint32, tty int64, err error) {
	b, err := p.read(pid, "stat", maxProcFile)
	if err != nil {
		return 0, 0, err
	}
	_, rest, ok := bytesCutLast(b, ')')
	fields := bytes.Fields(rest) // state ppid pgrp session tty_nr
	if !ok || len(fields) < 5 {
		return 0, 0, fmt.Errorf("read stat of pid %d: %w", pid, errMalformed)
	}
	n, err := strconv.ParseUint(string(fields[3]), 10, 32)
	if err == nil {
		tty, err = strconv.ParseInt(string(fields[4]), 10, 64)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read stat of pid %d: %w", pid, errMalformed)
	}
	return uint32(n), tty, nil
}

// status gives the four uids (real, effective, saved, filesystem), all group
// ids, the name and the PID in its own namespace.
func (p procfs) status(pid uint32) (s procStatus, err error) {
	b, err := p.read(pid, "status", maxProcFile)
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		words := strings.Fields(value)
		switch key {
		case "Name":
			s.name = strings.TrimSpace(value)
		case "Tgid":
			s.tgid = first(words)
		case "TracerPid":
			s.tracer = first(words)
		case "Uid":
			s.uids = numbers(words)
		case "Gid", "Groups":
			s.gids = append(s.gids, numbers(words)...)
		case "NSpid":
			if n := numbers(words); len(n) > 0 {
				s.nsPID = n[len(n)-1]
			}
		}
	}
	if len(s.uids) != 4 {
		return s, fmt.Errorf("read status of pid %d: %w", pid, errMalformed)
	}
	return s, nil
}

type procStatus struct {
	name   string
	uids   []uint32
	gids   []uint32
	nsPID  uint32
	tgid   uint32 // of a thread that was asked for: its process
	tracer uint32 // the thread that traces it, 0: nobody does
}

// first is the first number, 0 if there is none.
func first(words []string) uint32 {
	if n := numbers(words); len(n) > 0 {
		return n[0]
	}
	return 0
}

func numbers(words []string) []uint32 {
	var all []uint32
	for _, w := range words {
		n, err := strconv.ParseUint(w, 10, 32)
		if err != nil {
			return nil
		}
		all = append(all, uint32(n))
	}
	return all
}

// pidNamespace is the link that names the PID namespace of a process.
func (p procfs) pidNamespace(pid uint32) (string, error) {
	return os.Readlink(p.path(pid, "ns/pid"))
}

func (p procfs) exe(pid uint32) string { return p.link(pid, "exe") }
func (p procfs) cwd(pid uint32) string { return p.link(pid, "cwd") }

// link is where one of a process' links leads, "" if that may not be read.
func (p procfs) link(pid uint32, name string) string {
	to, err := os.Readlink(p.path(pid, name))
	if err != nil {
		return ""
	}
	return to
}

// argv gives the command line, cut at maxArgv bytes.
func (p procfs) argv(pid uint32) (argv []string, truncated bool) {
	b, err := p.read(pid, "cmdline", maxArgv+1)
	if err != nil {
		return nil, false
	}
	if len(b) > maxArgv {
		b, truncated = b[:maxArgv], true
	}
	broker.Hush(b)
	return splitArgv(b), truncated
}

// splitArgv cuts arguments that are each ended by NUL.
func splitArgv(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// cgroup is the cgroup v2 path.
func (p procfs) cgroup(pid uint32) string {
	b, err := p.read(pid, "cgroup", maxProcFile)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(path, "\n")
		}
	}
	return ""
}
