#!/bin/bash
# pictures.sh: docs/pictures, made of the real thing: sessions on this kernel,
# lineage top on a terminal, keys, and what the terminal shows then.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(id -u)" -ne 0 ]; then
	echo "pictures: needs root; run it with sudo" >&2
	exit 1
fi
if ! grep -q ' /sys/fs/bpf bpf ' /proc/mounts; then
	exec testdata/bpffs.sh "$0"
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/lngtest-pictures-XXXXXX")
pictures=$PWD/docs/pictures
lineage=$PWD/bin/lineage
programs=$PWD/bin/testdata
draw=$dir/draw
go build -o "$draw" ./internal/pictures
unset TMUX TMUX_PANE NO_COLOR LINEAGE_THEME
export LINEAGE_SOCKET=$dir/lineage.sock LNGTEST_SECONDS=120
tmux() { command tmux -u -S "$dir/tmux" -f /dev/null "$@"; }

clean() {
	tmux kill-server 2>/dev/null || true
	for name in agent build; do "$lineage" end --yes --now "$name" >/dev/null 2>&1 || true; done
	wait
	"$lineage" daemon --unload --force >/dev/null 2>&1 || true
	rm -rf "$dir"
}
trap clean EXIT

# see looks at the screen until it says all of that.
see() {
	local word screen
	for ((i = 0; i < 300; i++)); do
		screen=$(tmux capture-pane -p)
		for word; do
			[[ $screen == *"$word"* ]] || break
		done
		if [[ $screen == *"$word"* ]]; then return 0; fi
		sleep 0.1
	done
	printf 'pictures: the screen does not say "%s":\n%s\n' "$word" "$screen" >&2
	return 1
}
# insist presses keys until the screen says that: a dialog does not hear at first.
insist() {
	local word=$1
	shift
	for ((i = 0; i < 100; i++)); do
		if [[ $(tmux capture-pane -p) == *"$word"* ]]; then return 0; fi
		tmux send-keys "$@"
		sleep 0.1
	done
	see "$word"
}
# started waits until all of a session runs.
started() {
	for ((i = 0; i < 300; i++)); do
		if [[ $("$lineage" tree "$1" 2>&1) == *'tester 303'* ]]; then return 0; fi
		sleep 0.1
	done
	echo "pictures: session $1 did not start" >&2
	return 1
}
press() { tmux send-keys "$@"; }
search() {
	press /
	tmux send-keys -l "$1"
	press Enter
}
shoot() { tmux capture-pane -p -e | "$draw" -title "$2" >"$pictures/$1.svg"; }

# An agent whose server daemonised, whose helper died, and which runs a build.
cd "$dir"
mkdir bin
for name in watcher compile tester; do ln -s /bin/sleep "bin/$name"; done
ln -s "$programs/lngtest-port" bin/server
export PATH=$dir/bin:$PATH
cat >agent <<'EOF'
watcher 300 &
sh helper &
sh build &
for n in 1 2 3 4 5 6; do /bin/true; done
wait
EOF
cat >helper <<'EOF'
server 50 >/dev/null &
EOF
cat >build <<'EOF'
compile 301 & compile 302 & tester 303 &
false
wait
EOF
"$lineage" run -q --name agent --grace 2s -- sh agent >/dev/null 2>&1 &
started agent
"$lineage" run -q --name build -- sh build >/dev/null 2>&1 &
started build

tmux new-session -d -x 110 -y 28 -- "$lineage" top
tmux set-option -g escape-time 10
see agent build 'server 50' 'check ok'
press g
see 'x ends it and all that it'
shoot top "lineage top: two sessions as a tree, the details of one beside it"
search 'server 50' # the one that daemonised: its creator is gone
see 'why it belongs there' 'the root of the'
shoot top-why "lineage top: why a process belongs to its session, through creators that are dead"
press x
see '[ Cancel ]' 'processes die'
insist '[ End ]' Left Right
shoot top-end "lineage top: what would die, how, and what it holds"
press Enter
see Result 'ended, clean'
shoot top-result "lineage top: what came of it"
insist 'x end' Enter
press q
ls -l "$pictures"
