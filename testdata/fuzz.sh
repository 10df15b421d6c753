#!/bin/bash
# fuzz.sh: every fuzz target of the module for FUZZTIME each (default 20s), one
# after the other. What go finds is in that package's testdata/fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
while IFS=: read -r file name; do
	printf '%s %s\n' "$(dirname "$file")" "$name"
	go test "$(dirname "$file")" -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-20s}" || failed=1
done < <(grep -rHoP --include='*_test.go' '^func \KFuzz\w+' ./* | sort)
exit $failed
