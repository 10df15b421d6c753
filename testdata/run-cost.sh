#!/bin/bash
# run-cost.sh: what `lineage run true` costs over `true`, with a daemon of its
# own that is up; medians of 101 runs each, in turn, in ms. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${LNGTEST_STAGED:-}" ]; then
	LNGTEST_STAGED=1 exec testdata/bpffs.sh "$0"
fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/lngtest-cost-XXXXXX")
export LINEAGE_SOCKET=$dir/lineage.sock
bin/lineage daemon 2>"$dir/log" &
daemon=$!
clean() {
	kill "$daemon"
	wait "$daemon" || true
	bin/lineage daemon --unload --force
	rm -rf "$dir"
}
trap clean EXIT
until bin/lineage version 2>/dev/null | grep -q "pid $daemon"; do sleep 0.1; done

took() {
	local began=${EPOCHREALTIME/./}
	"$@"
	echo $((${EPOCHREALTIME/./} - began))
}
for ((i = 0; i < 101; i++)); do
	took /bin/true >>"$dir/true"
	took bin/lineage run -- /bin/true >>"$dir/run"
done
median() { sort -n "$dir/$1" | sed -n 51p; }
awk -v a="$(median true)" -v b="$(median run)" \
	'BEGIN { printf "true %.1f ms, lineage run true %.1f ms, more by %.1f ms\n", a/1000, b/1000, (b-a)/1000 }'
awk '/VmRSS/ { printf "daemon: %.1f MB resident\n", $2/1024 }' "/proc/$daemon/status"
