//go:build linux

package daemon

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"testing"
)

func TestUnwritten(t *testing.T) {
	// A mapping as smaps has it, with the lines that matter.
	entry := func(header string, anonymous, swapped int) string {
		return fmt.Sprintf("%s\nSize: 4 kB\nRss: 4 kB\nAnonymous: %d kB\nSwap: %d kB\nSwapPss: 0 kB\nVmFlags: rd mr mw me\n",
			header, anonymous, swapped)
	}
	const exe = "/usr/bin/lineage"
	text := mapping{0x400000, 0xeac000}
	for _, c := range []struct {
		name, smaps, exe string
		want             []mapping
	}{
		{"text", entry("00400000-00eac000 r-xp 00000000 fe:00 99 /usr/bin/lineage", 0, 0), exe, []mapping{text}},
		{"what is only read", entry("00400000-00eac000 r--p 00aac000 fe:00 99                /usr/bin/lineage", 0, 0), exe, []mapping{text}},
		{"a file that was replaced", entry("00400000-00eac000 r-xp 00000000 fe:00 99 /opt/my lineage/bin (deleted)", 0, 0), "/opt/my lineage/bin (deleted)", []mapping{text}},
		{"data", entry("00400000-00eac000 rw-p 00000000 fe:00 99 /usr/bin/lineage", 0, 0), exe, nil},
		{"all", entry("00400000-00eac000 rwxp 00000000 fe:00 99 /usr/bin/lineage", 0, 0), exe, nil},
		{"shared", entry("00400000-00eac000 r--s 00000000 fe:00 99 /usr/bin/lineage", 0, 0), exe, nil},
		{"relocated", entry("00400000-00eac000 r--p 00000000 fe:00 99 /usr/bin/lineage", 8, 0), exe, nil},
		{"relocated and swapped out", entry("00400000-00eac000 r--p 00000000 fe:00 99 /usr/bin/lineage", 0, 4), exe, nil},
		{"without a count", "00400000-00eac000 r--p 00000000 fe:00 99 /usr/bin/lineage\nAnonymous: many kB\nVmFlags: rd\n", exe, nil},
		{"cut off", "00400000-00eac000 r--p 00000000 fe:00 99 /usr/bin/lineage\nRss: 4 kB\n", exe, nil},
		{"another file", entry("00400000-00eac000 r-xp 00000000 fe:00 99 /usr/bin/lineage.new", 0, 0), exe, nil},
		{"a file of another root", entry("00400000-00eac000 r-xp 00000000 fe:00 99 /chroot/usr/bin/lineage", 0, 0), exe, nil},
		{"none", entry("00400000-00eac000 r-xp 00000000 00:00 0 [vdso]", 0, 0) + entry("00400000-00eac000 r--p 00000000 00:00 0", 0, 0), exe, nil},
		{"no program", entry("00400000-00eac000 r--p 00000000 00:00 0", 0, 0), "", nil},
		{"nothing", "", exe, nil},
		{"nonsense", "x\n\n/usr/bin/lineage\nAnonymous:\nVmFlags:\n", exe, nil},
		{"one behind the other", entry("00400000-00eac000 r-xp 00000000 fe:00 99 /usr/bin/lineage", 0, 0) +
			entry("00eac000-0196a000 r--p 00aac000 fe:00 99 /usr/bin/lineage", 4, 0) +
			entry("0196a000-01b52000 rw-p 0156a000 fe:00 99 /usr/bin/lineage", 0, 0) +
			entry("7f0000000000-7f0000001000 r--p 00000000 fe:00 98 /usr/lib/libc.so.6", 0, 0), exe, []mapping{text}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := unwritten([]byte(c.smaps), c.exe); !slices.Equal(got, c.want) {
				t.Errorf("%x, want %x", got, c.want)
			}
		})
	}
}

// TestShed: what is given back is gone, and what is needed of it comes again,
// also with the C library, whose functions are found by relocations.
func TestShed(t *testing.T) {
	before, written := programResident(t)
	if err := shed(); err != nil {
		t.Fatal(err)
	}
	if _, err := user.Current(); err != nil {
		t.Error(err)
	}
	after, stays := programResident(t)
	if after >= before {
		t.Errorf("%d KiB of the program are resident, before %d", after, before)
	}
	if stays < written {
		t.Errorf("%d KiB of its data are resident, before %d", stays, written)
	}
}

// programResident is what is resident of our own program, in KiB: of what is
// only read, and of what may be written.
func programResident(t *testing.T) (read, written int) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	var kib *int
	for lines := bufio.NewScanner(bytes.NewReader(smaps)); lines.Scan(); {
		line := lines.Text()
		fields := strings.Fields(line)
		switch {
		case !strings.HasSuffix(fields[0], ":"):
			kib = nil
			if strings.HasSuffix(line, " "+exe) {
				if kib = &read; fields[1][1] == 'w' {
					kib = &written
				}
			}
		case fields[0] == "Rss:" && kib != nil:
			var n int
			if _, err := fmt.Sscan(fields[1], &n); err != nil {
				t.Fatal(err)
			}
			*kib += n
		}
	}
	if read == 0 {
		t.Fatalf("nothing of %s", exe)
	}
	return read, written
}
