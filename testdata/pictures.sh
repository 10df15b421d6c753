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
here=$PWD
pictures=$here/docs/pictures
lineage=$PWD/bin/lineage
draw=$dir/draw
go build -o "$draw" ./internal/pictures
unset TMUX TMUX_PANE NO_COLOR LC_ALL
export LINEAGE_SOCKET=$dir/lineage.sock LANG=C.UTF-8
tmux() { command tmux -u -S "$dir/tmux" -f /dev/null "$@"; }

clean() {
	tmux kill-server 2>/dev/null || true
	for name in web ci; do "$lineage" end --yes --now "$name" >/dev/null 2>&1 || true; done
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
press() { tmux send-keys "$@"; }
search() {
	press /
	tmux send-keys -l "$1"
	press Enter
}
shoot() { tmux capture-pane -p -e | "$draw" -title "$2" >"$pictures/$1.svg"; }

# A project of vite, whose tests left a server behind, and a CI job that compiles
# and tests in a loop.
cd "$dir"
mkdir app ci
cat >app/package.json <<'EOF'
{"name":"app","private":true,"scripts":{"dev":"vite --host 127.0.0.1 --port 51730 --strictPort"}}
EOF
echo '<!doctype html><script type="module">document.body.append("hello")</script>' >app/index.html
cat >app/preview.js <<'EOF'
require("http").createServer((q, a) => a.end("ok")).listen(51731, "127.0.0.1");
setTimeout(() => process.exit(), 300000);
EOF
npm --prefix app install --no-save --no-audit --no-fund vite >/dev/null
cat >web <<'EOF'
cd app
npm run dev >/dev/null 2>&1 &
sh -c 'setsid node preview.js >/dev/null 2>&1 &'
wait
EOF
cp "$here"/testdata/programs/*.[ch] ci
cat >ci/Makefile <<'EOF'
all: $(patsubst %.c,%.o,$(wildcard *.c))
%.o: %.c
	gcc -O2 -Wall -pthread -c -o $@ $<
EOF
cat >ci/job <<'EOF'
for n in $(seq 40); do
	make -s -j2 -C ci all
	sh -c 'test -e ci/report'
	rm -f ci/*.o
	sleep 2
done
EOF
"$lineage" run -q --name web --grace 2s -- bash web >/dev/null 2>&1 &
"$lineage" run -q --name ci --grace 2s -- bash ci/job >/dev/null 2>&1 &

tmux new-session -d -x 120 -y 16 -- "$lineage" top --theme dark
tmux set-option -g escape-time 10
see web ci 51730 51731 'orphan'
press P
sleep 3 # CPU% takes two samples
press g
see 'x end' 'sleep 2'
shoot top-tree "lineage top: a vite project and a CI job as a tree, with an orphan below its dead creator"
tmux resize-window -y 30
see 'x ends it and all that it'
shoot top "lineage top: a vite project and a CI job as a tree, the details of a session beside it"
press z
see 'unfold all'
sleep 8
shoot top-sessions "lineage top: all sessions as a table"
press z
search preview.js # first the shell that started it and is gone, then the server that stayed
press Down
press Escape
see creators 'reparented from' '127.0.0.1:51731'
shoot top-why "lineage top: why a leftover server belongs to its session, through a creator that is dead"
press x
see '[ Cancel ]' 'processes will be killed'
insist '[ End ]' Left Right
shoot top-end "lineage top: what would die, how, and which ports it holds"
press Enter
see Result 'ended, clean'
sleep 1 # until the tree shows it too
shoot top-result "lineage top: how each process ended, and the ports that are free again"
insist 'x end' Enter
search ci/job
press T
see 'Timeline of' 'gcc'
sleep 4
shoot top-timeline "lineage top: when the processes of the CI job ran, each command on its lane"
press q
ls -l "$pictures"
