#!/bin/bash
# leftovers.sh: fails if tests of this checkout left a process, a file, a mount or a cgroup. bpffs.sh marks their
# mounts, gotest.sh has their files in a folder. What counts stays for 30 s: PID 1 may reap late.
set -euo pipefail
cd "$(dirname "$0")/.."
top=$(pwd -P)
tmp=${TMPDIR:-/tmp}/l$(stat -c %i .)
began=$(stat -c %W bin/test.log 2>/dev/null || echo 0)

look() {
	local d born
	{
		find /proc/[0-9]*/exe -maxdepth 0 -lname "$top/bin/*"
		grep -lsF "$top /sys/fs/bpf bpf " /proc/[0-9]*/mounts
	} 2>/dev/null | cut -d / -f 3 | sort -u | while read -r d; do
		{ echo "process $d $(<"/proc/$d/comm") $(readlink "/proc/$d/exe")"; } 2>/dev/null || true
	done
	for d in "$tmp"/lngtest-* /sys/fs/cgroup/lngtest-* /sys/fs/cgroup/*/lngtest-*; do
		born=$(stat -c %Y "$d" 2>/dev/null) || continue
		[ "$born" -ge "$began" ] || continue
		[[ $d = "$tmp"/* ]] ||
			[ -z "$(find "$d" -name cgroup.procs -exec cat {} + 2>/dev/null)" ] || continue
		echo "file $d"
	done
	awk -v tmp="$tmp/" 'index($2, tmp) == 1 { print "mount " $2 }' /proc/mounts
}

left=$(look)
while [ -n "$left" ] && [ $SECONDS -lt "${WAIT:-30}" ]; do
	sleep 0.3
	left=$(grep -xF "$left" <<<"$(look)" || true)
done
[ -n "$left" ] || exit 0
printf 'left behind:\n%s\n' "$left" >&2
exit 1
