#!/bin/bash
# fuzz.sh: the fuzz targets whose names match FUZZ (default all),
# for FUZZTIME each (default 20s), one after the other. What go finds is in that
# package's testdata/fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# out_of_time tells whether all that go complains of is that its time was over,
# which it takes for a failure now and then before 1.27 (golang/go#75804). What
# was found has a name and a text.
out_of_time() {
	[ "$(grep -A2 -e '^--- FAIL' "$log" | tail -n +2)" = "    context deadline exceeded"$'\n'"FAIL" ] &&
		! grep -qE '^panic:|Failing input' "$log"
}

while IFS=: read -r file name; do
	[[ $name =~ ^(${FUZZ:-.*})$ ]] || continue
	printf '%s %s\n' "$(dirname "$file")" "$name"
	# What is interesting is made small for a second, not for go's minute: some
	# targets run few times a second, and the time is for new inputs.
	go test -C "$(dirname "$file")" -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-20s}" -fuzzminimizetime 1s 2>&1 | tee "$log" ||
		out_of_time || failed=1
done < <(grep -rHoP --include='*_test.go' '^func \KFuzz\w+' ./* | sort)
exit $failed
