#!/bin/bash
# gotest.sh ARGS…: go test -v ARGS, whole into bin/test.log, the telling lines to
# stdout. MODULE: the folder of another module. gotest.sh --counts: what the log holds, in plain counts.
set -euo pipefail
cd "$(dirname "$0")/.."
log=bin/test.log

if [ "${1:-}" = --counts ]; then
	count() { grep -cE "^ *--- $1: " "$log" || true; }
	printf 'go test: %d passed, %d failed, %d skipped\n' \
		"$(count PASS)" "$(count FAIL)" "$(count SKIP)"
	grep -E -A1 '^ *--- SKIP: ' "$log" | grep -v '^--$' || true
	exit
fi

mkdir -p bin
tmp=${TMPDIR:-/tmp}/l$(stat -c %i .) # for leftovers.sh
install -dm 1777 "$tmp"
trap 'rmdir "$tmp" 2>/dev/null || true' EXIT
# The log of a passing test is kept in the file; a skip and a failure are shown,
# with the first 10 and the last 40 lines that the failed test logged.
# Tests that send signals get them whoever called, nohup or a shell's background.
env --default-signal -C "${MODULE:-.}" TMPDIR="$tmp" go test -count=1 -v "$@" 2>&1 | tee -a "$log" | awk '
	/^=== (RUN|CONT|NAME)/ { test = $3; next }
	/^ *--- FAIL/ {
		print
		for (n = 1; n <= said[$3]; n++) {
			if (n == 11 && said[$3] > 50) { n = said[$3] - 39; print "        …" }
			print text[$3, n]
		}
		said[$3] = 0
		failed = 1
		next
	}
	/^FAIL|^panic:|^WARNING: DATA RACE|^ok |^# |no test files/ { print; next }
	/^ *--- SKIP/ { print; getline; print; next }
	/^ +[a-z_0-9]+\.go:[0-9]+: / && /figure:/ { print; next }
	/^ +/ && !/^ *--- / { text[test, ++said[test]] = $0 }
	END { if (failed) print "whole output: bin/test.log" }'
