#!/bin/bash
# demo.sh: the story of a session on real processes. Every statement is checked
# against /proc; the exit code says whether all checks passed.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(id -u)" -ne 0 ]; then
	echo "demo: needs root; run it with sudo" >&2
	exit 1
fi
if ! grep -q ' /sys/fs/bpf bpf ' /proc/mounts; then
	echo "demo: no bpffs at /sys/fs/bpf: one is mounted for this demo only"
	exec testdata/bpffs.sh "$0"
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/lngtest-demo-XXXXXX")
export LINEAGE_SOCKET=$dir/lineage.sock NO_COLOR=1
lineage=$PWD/bin/lineage
failed=0

# clean leaves nothing: what the demo started is ended, its pins are removed.
clean() {
	exec 7>&- || true
	if [ -n "${run:-}" ] && kill -KILL "$run" 2>/dev/null; then wait "$run" 2>/dev/null || true; fi
	"$lineage" daemon --unload --force >/dev/null 2>&1 || true
	rm -rf "$dir"
}
trap clean EXIT

tell() { printf '\n# %s\n' "$*"; }
show() {
	printf '$ %s\n' "lineage $*"
	"$lineage" "$@" | tee shown
}
claim() {
	local text=$1
	shift
	if "$@"; then
		printf '  [holds] %s\n' "$text"
	else
		printf '  [FAILS] %s\n' "$text"
		failed=1
	fi
}
field() { awk -v name="$2:" '$1 == name { print $2 }' "/proc/$1/status" 2>/dev/null; }
shown() { grep -qE -- "$1" shown; }
said() { grep -qE -- "$1" stderr; }
# soon repeats a look for up to 30 s: PID 1 may take 5 s to reap, a busy machine longer.
soon() {
	for ((i = 0; i < 600; i++)); do
		if "$@"; then return 0; fi
		sleep 0.05
	done
	return 1
}
bare() { ! grep -q . "/proc/$1/environ"; }
gone() { [ ! -e "/proc/$1" ]; }
why_says() { "$lineage" why "$1" | grep -q -- "$2"; }
fathered() { [ "$(field "$1" PPid)" = "$2" ]; }

# The agent starts a server the way daemons start: by a shell that exits at once,
# in its own POSIX session, with an empty environment. Then it works until told.
mkfifo "$dir/news" "$dir/go"
cat >"$dir/agent" <<'EOF'
( echo "$BASHPID" >middle
  setsid sh -c 'echo $$ >news; exec env -i sleep 300' & )
read -r _ <go
EOF

tell "An agent runs in a session. Orphans go to PID 1, as without lineage."
echo "\$ lineage run --name agent --subreaper=false -- bash agent"
cd "$dir"
"$lineage" run --name agent --subreaper=false -- bash agent 2>stderr &
run=$!
exec 7<>go # so that nobody waits for the other end
exec 8<>news
if ! read -r -t 30 server <&8; then
	echo "demo: the agent did not start: $(cat stderr)" >&2
	exit 1
fi
middle=$(cat middle)

tell "It has started a server, PID $server, through a shell, PID $middle, which has exited already."
claim "the shell in between is dead" soon gone "$middle"
claim "the server's parent is PID 1" soon fathered "$server" 1
claim "its environment is empty" soon bare "$server"
claim "it leads a POSIX session of its own" test "$(awk '{ print $6 }' "/proc/$server/stat")" = "$server"
echo "  Nothing in /proc leads from it back to the agent."

tell "lineage knows its session, and the processes in between."
show ls
claim "the session is listed" shown agent
# Where the kernel refuses fentry programs the new parent comes from a snapshot.
claim "why knows the present parent, PID 1" soon why_says "$server" "parent now 1 "
show tree agent
claim "the tree has the server" shown "\b$server\b"
claim "the tree has its dead creator" shown "\b$middle\b"
show why "$server"
claim "why names the session" shown agent
claim "why names the dead creator" shown "\b$middle\b"

tell "The agent exits. Its session ends, and the server with it."
echo go >&7
code=0
wait "$run" || code=$?
run=
cat stderr
claim "run gave the agent's exit code, 0" test "$code" = 0
claim "run names the server as a leftover" said "sleep 300"
claim "the server is gone" soon gone "$server"
show ls
claim "no session is left" sh -c "! grep -q agent shown"

if [ "$failed" -ne 0 ]; then
	printf '\ndemo: a check failed\n' >&2
	exit 1
fi
printf '\nAll checks passed. No processes left behind.\n'
