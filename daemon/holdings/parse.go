//go:build linux

package holdings

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
)

// States of a socket in /proc/net.
const (
	timeWait  = 0x06
	closed    = 0x07 // of UDP: bound, and not connected
	listening = 0x0a
)

// resourcesSocket is one line of /proc/net/{tcp,tcp6,udp,udp6}.
type resourcesSocket struct {
	local netip.AddrPort
	state uint8
	inode uint64 // 0: the kernel's own, or closed by every process
}

// parseSocket reads such a line, past the header.
func parseSocket(line string) (resourcesSocket, error) {
	if f := strings.Fields(line); len(f) >= 10 {
		local, ok := parseAddr(f[1])
		state, err := strconv.ParseUint(f[3], 16, 8)
		inode, noInode := strconv.ParseUint(f[9], 10, 64)
		if ok && err == nil && noInode == nil {
			return resourcesSocket{local, uint8(state), inode}, nil
		}
	}
	return resourcesSocket{}, fmt.Errorf("socket %q: %w", line, errMalformed)
}

// acceptCon marks a unix socket that listens.
const acceptCon = 0x10000

// parseUnix reads a line of /proc/net/unix, past the header, if the socket listens and
// has a name. The name may contain anything except a newline.
func parseUnix(line string) (name string, inode uint64, ok bool) {
	rest := line
	var f [7]string
	for i := range f {
		rest = strings.TrimLeft(rest, " ")
		f[i], rest, _ = strings.Cut(rest, " ")
	}
	flags, err := strconv.ParseUint(f[3], 16, 32)
	if err != nil || flags&acceptCon == 0 || rest == "" {
		return "", 0, false
	}
	if inode, err = strconv.ParseUint(f[6], 10, 64); err != nil {
		return "", 0, false
	}
	return rest, inode, true
}

// parseAddr reads ADDRESS:PORT. The address is printed as words of the host's
// byte order, the port as a number.
func parseAddr(s string) (netip.AddrPort, bool) {
	text, port, ok := strings.Cut(s, ":")
	p, err := strconv.ParseUint(port, 16, 16)
	b, herr := hex.DecodeString(text)
	if !ok || err != nil || herr != nil {
		return netip.AddrPort{}, false
	}
	for w := b; len(w) >= 4; w = w[4:] {
		binary.NativeEndian.PutUint32(w, binary.BigEndian.Uint32(w))
	}
	a, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a, uint16(p)), ok
}

// lockEntry is one line of /proc/locks, or of fdinfo after "lock:".
type lockEntry struct {
	kind    string // flock, posix, ofd, lease
	mode    string // read, write
	pid     int    // of the process that took it, which may be dead; -1: the lock is of an open file
	file    string // MAJOR:MINOR:INODE
	where   string // its range
	waiting bool   // it is blocked by the last entry that is not waiting
}

// key is the same in /proc/locks and in fdinfo.
func (e *lockEntry) key() string {
	return fmt.Sprintf("%s %s %d %s %s", e.kind, e.mode, e.pid, e.file, e.where)
}

var lockKinds = map[string]string{
	"FLOCK": "flock", "POSIX": "posix", "OFDLCK": "ofd", "LEASE": "lease", "DELEG": "lease",
}

// parseLock reads
//
//	1: FLOCK  ADVISORY  WRITE 9609 fe:00:10027045 0 EOF
//	1: -> POSIX  ADVISORY  READ 9610 fe:00:10027045 0 99
//
// Access locks of mandatory locking, and all others for which no process can wait, are
// errors.
func parseLock(line string) (lockEntry, error) {
	bad := fmt.Errorf("lock %q: %w", line, errMalformed)
	f := strings.Fields(line)
	if len(f) < 2 || !strings.HasSuffix(f[0], ":") {
		return lockEntry{}, bad
	}
	e := lockEntry{waiting: f[1] == "->"}
	if f = f[1:]; e.waiting {
		f = f[1:]
	}
	if len(f) != 7 {
		return lockEntry{}, bad
	}
	var known bool
	if e.kind, known = lockKinds[f[0]]; !known {
		return lockEntry{}, bad
	}
	pid, err := strconv.ParseInt(f[3], 10, 32)
	if err != nil || strings.Count(f[4], ":") != 2 {
		return lockEntry{}, bad
	}
	e.mode, e.pid, e.file, e.where = strings.ToLower(f[2]), int(pid), f[4], f[5]+"-"+f[6]
	return e, nil
}

// fdinfo is the part of /proc/PID/fdinfo/FD that is used.
type fdinfo struct {
	flags int64 // of open(2)
	mount uint64
	inode uint64 // 0: before 5.14
	locks []lockEntry
}

// parseInfo reads an fdinfo; it ignores fields that it does not know.
func parseInfo(r io.Reader) (fdinfo, error) {
	info := fdinfo{flags: -1}
	err := lines(r, func(line string) error {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		var err error
		switch key {
		case "flags":
			info.flags, err = strconv.ParseInt(value, 8, 64)
		case "mnt_id":
			info.mount, err = strconv.ParseUint(value, 10, 64)
		case "ino":
			info.inode, err = strconv.ParseUint(value, 10, 64)
		case "lock":
			if e, err := parseLock(value); err == nil && !e.waiting {
				info.locks = append(info.locks, e)
			}
		}
		if err != nil {
			return fmt.Errorf("fdinfo %q: %w", line, errMalformed)
		}
		return nil
	})
	return info, err
}

func parseMount(line string) (id uint64, device string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 3 {
		return 0, "", false
	}
	id, err := strconv.ParseUint(f[0], 10, 64)
	return id, f[2], err == nil
}

// lines calls each for every line of a file, until it fails. It is an error if the file is longer than maxTable.
func lines(f io.Reader, each func(string) error) error {
	limited := &io.LimitedReader{R: f, N: maxTable}
	s := bufio.NewScanner(limited)
	for s.Scan() {
		if err := each(s.Text()); err != nil {
			return err
		}
	}
	if s.Err() == nil && limited.N == 0 {
		return errMany
	}
	return s.Err()
}
