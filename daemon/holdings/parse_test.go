//go:build linux

package holdings

import (
	"strings"
	"testing"
)

var socketLines = []string{
	"   0: 0100007F:0277 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0000000000000000 100 0 0 10 0",
	"   1: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 777 1 0000000000000000 100 0 0 10 0",
	" 2345: 0100007F:1F91 0100007F:D431 06 00000000:00000000 03:0000176F 00000000     0        0 0 3 0000000000000000",
}

func TestParseSocket(t *testing.T) {
	for i, want := range []struct {
		local string
		state uint8
		inode uint64
	}{{"127.0.0.1:631", listening, 12345}, {"[::1]:8080", listening, 777}, {"127.0.0.1:8081", timeWait, 0}} {
		s, err := parseSocket(socketLines[i])
		if err != nil || s.local.String() != want.local || s.state != want.state || s.inode != want.inode {
			t.Errorf("%+v %v, want %+v", s, err, want)
		}
	}
	for _, bad := range []string{"", "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
		strings.Replace(socketLines[0], "0277", "10277", 1), strings.Replace(socketLines[0], "0100007F", "01007F", 1),
		strings.Replace(socketLines[0], "12345", "-1", 1), strings.Replace(socketLines[0], " 0A ", " 10A ", 1), socketLines[0][:60]} {
		if s, err := parseSocket(bad); err == nil {
			t.Errorf("%q is %+v", bad, s)
		}
	}
}

func TestParseUnix(t *testing.T) {
	for line, want := range map[string]string{
		"0000000000000000: 00000002 00000000 00010000 0001 01   123 /run/a b ": "/run/a b ",
		"0000000000000000: 00000002 00000000 00010000 0005 01 99999 @x":        "@x",
		"0000000000000000: 00000003 00000000 00000000 0001 03 19999 /run/a":    "", // connected
		"0000000000000000: 00000002 00000000 00010000 0001 01 19999":           "", // no name
		"Num       RefCount Protocol Flags    Type St Inode Path":              "",
	} {
		if name, _, ok := parseUnix(line); name != want || ok != (want != "") {
			t.Errorf("%q is %q %v", line, name, ok)
		}
	}
}

func TestParseLock(t *testing.T) {
	for line, want := range map[string]lockEntry{
		"1: FLOCK  ADVISORY  WRITE 9609 fe:00:10027045 0 EOF":    {kind: "flock", mode: "write", pid: 9609, file: "fe:00:10027045", where: "0-EOF"},
		"12: POSIX  ADVISORY  READ  7 00:2f:3 10 99":             {kind: "posix", mode: "read", pid: 7, file: "00:2f:3", where: "10-99"},
		"3: OFDLCK ADVISORY  WRITE -1 08:01:5 0 EOF":             {kind: "ofd", mode: "write", pid: -1, file: "08:01:5", where: "0-EOF"},
		"4: LEASE  ACTIVE    READ  99 08:01:5 0 EOF":             {kind: "lease", mode: "read", pid: 99, file: "08:01:5", where: "0-EOF"},
		"1: -> FLOCK  ADVISORY  WRITE 9610 fe:00:10027045 0 EOF": {kind: "flock", mode: "write", pid: 9610, file: "fe:00:10027045", where: "0-EOF", waiting: true},
		"1:  -> POSIX  ADVISORY  WRITE 5 fe:00:1 0 0":            {kind: "posix", mode: "write", pid: 5, file: "fe:00:1", where: "0-0", waiting: true},
	} {
		if e, err := parseLock(line); err != nil || e != want {
			t.Errorf("%q is %+v %v", line, e, err)
		}
	}
	for _, bad := range []string{"", "1:", "1: ->", "1: -> ->", "1: FLOCK ADVISORY WRITE x fe:00:1 0 EOF", "1: ACCESS ADVISORY  WRITE 5 fe:00:1 0 EOF",
		"1: POSIX  *NOINODE* WRITE 5 <none>:0 0 EOF", "FLOCK ADVISORY WRITE 5 fe:00:1 0 EOF"} {
		if e, err := parseLock(bad); err == nil {
			t.Errorf("%q is %+v", bad, e)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range socketLines {
		f.Add(line)
	}
	f.Add("1: -> FLOCK  ADVISORY  WRITE 9610 fe:00:10027045 0 EOF")
	f.Add("0000000000000000: 00000002 00000000 00010000 0001 01   123 /run/a b ")
	f.Add("flags:\t0100002\nmnt_id:\t29\nino:\t3\nlock:\t1: FLOCK  ADVISORY  WRITE 9609 fe:00:3 0 EOF\n")
	f.Add("29 1 254:0 / / rw - ext4 /dev/vda rw")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := parseSocket(text); err == nil && !s.local.IsValid() {
			t.Errorf("%q has no address: %+v", text, s)
		}
		if e, err := parseLock(text); err == nil && (e.kind == "" || e.file == "") {
			t.Errorf("%q is %+v", text, e)
		}
		if name, _, ok := parseUnix(text); ok != (name != "") {
			t.Errorf("%q is %q %v", text, name, ok)
		}
		if info, err := parseInfo(strings.NewReader(text)); err == nil {
			for _, e := range info.locks {
				if e.waiting {
					t.Errorf("%q holds what it waits for", text)
				}
			}
		}
		parseMount(text)
		bracketed(text, "socket")
	})
}
