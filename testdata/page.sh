#!/bin/bash
# page.sh: docs/pictures/session.png, of the real thing: an agent's session on this kernel, as
# "lineage history SESSION --html FILE" writes it, in Chromium.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(id -u)" -ne 0 ]; then
	echo "page: needs root; run it with sudo" >&2
	exit 1
fi
if ! grep -q ' /sys/fs/bpf bpf ' /proc/mounts; then
	exec testdata/bpffs.sh "$0"
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/lngtest-page-XXXXXX")
picture=$PWD/docs/pictures/session.png
export PATH=$PWD/bin:/usr/local/bin:/usr/bin:/bin LINEAGE_SOCKET=$dir/lineage.sock
clean() {
	lineage daemon --unload --force >/dev/null 2>&1 || true
	rm -rf "$dir"
}
trap clean EXIT

# An agent of two tool calls: the first leaves a server behind, the second compiles and tests.
mkdir "$dir/app"
cp testdata/programs/*.[ch] "$dir/app"
cd "$dir/app"
cat >server.js <<'EOF2'
process.on("SIGTERM", () => {}); // as many servers do
require("http").createServer((q, a) => a.end("ok")).listen(51732, "127.0.0.1");
setTimeout(() => process.exit(), 60000);
EOF2
cat >Makefile <<'EOF2'
all: $(patsubst %.c,%.o,$(wildcard [rs]e*.c))
%.o: %.c
	gcc -O2 -Wall -pthread -c -o $@ $<
EOF2
cat >agent.js <<'EOF2'
const { spawnSync } = require("child_process");
const hook = (event, id) => spawnSync("sh", ["-c", 'lineage hook claude-code; :'],
	{ input: JSON.stringify({ hook_event_name: event, tool_name: "Bash", tool_use_id: id }) });
const call = (id, command) => {
	hook("PreToolUse", id);
	spawnSync("bash", ["-c", command], { stdio: "ignore" });
	hook("PostToolUse", id);
};
call("toolu_01", "node server.js & sleep 1");
call("toolu_02", 'make -s -j2; for i in 1 2 3 4 5 6; do /usr/bin/test -e missing; done; for n in *.o; do /usr/bin/test -s "$n"; done');
EOF2
for ((i = 0; i < 5; i++)); do # a hook gives up after 200 ms, on a busy machine
	lineage run -q --name fix-test --grace 500ms -- node agent.js
	lineage history fix-test --html "$dir/page.html"
	rm -f ./*.o
	if [ "$(grep -c toolu_0 "$dir/page.html")" -gt 0 ] && ! grep -q 'end not reported' "$dir/page.html"; then break; fi
done
grep -q 'toolu_02' "$dir/page.html"
chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-quic --no-first-run --disable-background-networking --hide-scrollbars \
	--user-data-dir="$dir/profile" --blink-settings=preferredColorScheme=1 --window-size=1200,1500 --screenshot="$picture" "file://$dir/page.html" 2>/dev/null
ls -l "$picture"
