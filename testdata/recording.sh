#!/bin/bash
# recording.sh: docs/pictures/recording.svg, made of a real run: commands typed into
# a shell on a terminal, and what the terminal shows. PIDs, the session's id, clock times
# and durations are replaced afterwards, so that two runs give the same picture.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(id -u)" -ne 0 ]; then
	echo "recording: needs root; run it with sudo" >&2
	exit 1
fi
if ! grep -q ' /sys/fs/bpf bpf ' /proc/mounts; then
	exec testdata/bpffs.sh "$0"
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/lngtest-recording-XXXXXX")
picture=$PWD/docs/pictures/recording.svg
draw=$dir/draw
go build -o "$draw" ./internal/pictures
PATH=$PWD/bin:/usr/local/bin:/usr/bin:/bin
unset TMUX TMUX_PANE NO_COLOR LINEAGE_THEME
export LINEAGE_SOCKET=$dir/lineage.sock PS1=$'\\[\e[32m\\]$\\[\e[0m\\] '
tmux() { command tmux -u -S "$dir/tmux" -f /dev/null "$@"; }

clean() {
	tmux kill-server 2>/dev/null || true
	lineage end --yes --now agent >/dev/null 2>&1 || true
	[ -z "${run:-}" ] || wait "$run" || true
	lineage daemon --unload --force >/dev/null 2>&1 || true
	rm -rf "$dir"
}
trap clean EXIT

screen() { tmux capture-pane -p; }
# frame adds the screen as it is now, to be shown for so many milliseconds.
frame() { printf '\f%d\n%s\n' "$1" "$(tmux capture-pane -p -e)" >>"$dir/frames"; }
# until_says waits for the screen to match an expression.
until_says() {
	for ((i = 0; i < 300; i++)); do
		if screen | grep -qE -- "$1"; then return 0; fi
		sleep 0.05
	done
	printf 'recording: the screen does not say "%s":\n%s\n' "$1" "$(screen)" >&2
	return 1
}
# types has a command typed and run: the command, what its output ends with, how long
# that is shown.
types() {
	local text=$1 n typed
	for ((n = 0; n < ${#text}; n += 2)); do
		tmux send-keys -l -- "${text:n:2}"
		typed=${text:0:n+2}
		while [[ $(screen | grep '\S' | tail -n 1) != *"${typed% }" ]]; do sleep 0.01; done
		frame 70
	done
	frame 500
	tmux send-keys Enter
	until_says "$2"
	while [[ $(screen | grep '\S' | tail -n 1) != '$' ]]; do sleep 0.01; done
	frame "$3"
}

# An agent whose helper starts a server as daemons start, and exits.
cd "$dir"
cat >agent <<'END'
#!/bin/bash
(setsid python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 &)
sleep 60
END
chmod +x agent
lineage run -q --name agent --grace 2s -- ./agent >/dev/null 2>&1 &
run=$!
for ((i = 0; i < 300; i++)); do
	if lineage why :8123 >/dev/null 2>&1; then break; fi
	sleep 0.1
done

tmux new-session -d -x 100 -y 23 -- bash --norc --noprofile
tmux set-option -g status off
until_says '^\$'
types "# An agent left a server on port 8123. Its parent says nothing about where it came from:" '\$ *$' 900
# shellcheck disable=SC2016 # the shell on the terminal expands it
types 'ps -o pid,ppid,args -p $(pgrep -f "http.server 8123")' 'PPID' 2200
types "lineage why :8123" 'holds tcp' 4500
types "lineage end agent --yes" 'freed' 4500

# What differs from run to run. A PID keeps its width; no command that was typed has one.
ids=$(lineage ls -a -o json | grep -oE '"id":[ ]*"[a-z0-9]+"' | grep -oE '[a-z0-9]{6}' | sort -u)
steady=(-e 's/[0-9]{2}:[0-9]{2}:[0-9]{2}/10:42:07/g' -e 's/[0-9.]+ms\b/40ms/g' -e 's/[0-9]+s ago/2s ago/')
for id in $ids; do steady+=(-e "s/$id/k3f9aq/g"); done
n=0
for pid in $(lineage history agent --all -o json | grep -oE '"pid":[ ]*[0-9]+' | grep -oE '[0-9]+' | sort -nu) $run; do
	new=$((41211 + 2 * n++))
	steady+=(-e "/^\x1b\[32m\\\$/!s/(^|[^0-9])$pid([^0-9]|\$)/\\1${new: -${#pid}}\\2/g")
done
sed -E "${steady[@]}" "$dir/frames" | "$draw" -film -title "A server whose parent is dead: lineage why names its session, lineage end ends it" >"$picture"
ls -l "$picture"
