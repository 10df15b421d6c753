#!/bin/bash
# idle.sh OLD NEW PAIRS SECONDS: the CPU time of an idle daemon in per cent of a CPU, without a session and with
# 30 of 23 sleeping members each. OLD and NEW take turns.
set -euo pipefail
old=$1 new=$2 pairs=$3 seconds=$4
dir=$(mktemp -d "${TMPDIR:-/tmp}/lngtest-idle-XXXXXX")
export LINEAGE_SOCKET=$dir/l.sock
daemon='' run='' lineage=$new

clean() {
	for pid in $run $daemon; do
		kill -TERM "$pid" 2>/dev/null || true
		wait "$pid" || true
	done
	"$lineage" daemon --unload --force >/dev/null 2>&1 || true
	run='' daemon=''
}
trap 'clean; rm -rf "$dir"' EXIT

# used is the CPU time of all threads of the daemon, in ns.
used() { awk '{ s += $1 } END { printf "%.0f\n", s }' /proc/"$daemon"/task/*/schedstat; }

measure() {
	local sessions=$1 before after i
	"$lineage" daemon 2>"$dir/log" &
	daemon=$!
	for _ in $(seq 200); do
		if "$lineage" ls >/dev/null 2>&1; then break; fi
		sleep 0.1
	done
	for i in $(seq "$sessions"); do
		# shellcheck disable=SC2016
		"$lineage" run -q --name "idle-$i" -- sh -c 'for i in $(seq 22); do sleep 600 & done; wait' &
		run="$run $!"
	done
	for _ in $(seq 600); do
		if [ "$("$lineage" ls -o json 2>/dev/null | grep -c '"live": 23')" = "$sessions" ]; then break; fi
		sleep 0.1
	done
	sleep 15 # what began is over
	before=$(used)
	sleep "$seconds"
	after=$(used)
	clean
	awk -v d=$((after - before)) -v s="$seconds" 'BEGIN { printf "%.4f\n", d / s / 1e7 }'
}

for sessions in 0 30; do
	for pair in $(seq "$pairs"); do
		lineage=$old
		a=$(measure $sessions)
		lineage=$new
		b=$(measure $sessions)
		awk -v m=$sessions -v p="$pair" -v a="$a" -v b="$b" \
			'BEGIN { printf "figure: %d sessions, pair %d: old %s %%, new %s %%, ratio %.3f\n", m, p, a, b, b / a }'
	done
done
