#!/bin/bash
# leftovers.sh: fails if the tests left a process, a pin, a mount, a cgroup or a socket.
# A file that is older than the log of the tests was left by an earlier run that was interrupted.
# PID 1 may take 5 s to reap an orphan, and longer on a busy machine, so looks are repeated for 30 s.
set -euo pipefail
cd "$(dirname "$0")/.."

processes() {
	local dir comm exe
	for dir in /proc/[0-9]*; do
		{ read -r comm <"$dir/comm"; } 2>/dev/null || continue
		exe=$(readlink "$dir/exe" 2>/dev/null || true)
		case "$comm:$exe" in
		lngtest-* | *:"$PWD"/bin/*) echo "process ${dir#/proc/} $comm $exe" ;;
		esac
	done
}

began=$(stat -c %W bin/test.log 2>/dev/null || echo 0)

files() {
	local f born
	for f in /sys/fs/bpf/lineage-* "${TMPDIR:-/tmp}"/lngtest-* /sys/fs/cgroup/lngtest-* /sys/fs/cgroup/*/lngtest-*; do
		born=$(stat -c %W "$f" 2>/dev/null) || continue # 0: the file system does not keep it
		[ "$born" -gt 0 ] && [ "$born" -lt "$began" ] || echo "file $f"
	done
	awk '$2 ~ /lngtest-/ { print "mount " $2 }' /proc/mounts
}

for ((i = 0; i < 300; i++)); do
	left=$(processes; files)
	[ -n "$left" ] || exit 0
	sleep 0.1
done
printf 'left behind:\n%s\n' "$left" >&2
exit 1
