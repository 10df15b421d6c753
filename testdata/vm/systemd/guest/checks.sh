#!/bin/bash
# checks.sh: what a host with systemd has to see of lineage, in the order in which
# an operator would. Runs in the guest, from a unit of its own. Each check is a
# function; what it prints goes between the marks that package guest knows.
# shellcheck disable=SC2317 # functions that until_ calls
set -uo pipefail
cd /src || exit 1
[ ! -e only ] || ONLY=$(cat only)
stty -F /dev/ttyS1 -onlcr raw 2>/dev/null
export PATH=/usr/local/bin:/usr/bin:/usr/sbin PREFIX=/usr/local NO_COLOR=1
pins=/sys/fs/bpf/lineage

check() {
	local name=$1 began=${EPOCHREALTIME/./}
	printf '\036begin %s\n' "$name"
	(set -euo pipefail; "$name")
	code=$? # not asked for by an if or an ||: there set -e would do nothing
	[ "$code" -eq 0 ] || journalctl -u lineage -o short-monotonic --no-hostname -n 60
	printf '\n\036end %d %d %s\n' "$code" $(((${EPOCHREALTIME/./} - began) / 1000)) "$name"
}

# until_ waits for a command that has no event to wait for.
until_() {
	local until=$((EPOCHSECONDS + 180))
	while [ $EPOCHSECONDS -lt $until ]; do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	echo "never came true: $*"
	"$@"
}
property() { systemctl show --value -p "$2" "$1"; }
is() { [ "$1" = "$2" ] || { echo "$3: $1, want $2"; return 1; }; }
has() { grep -q -- "$2" <<<"$1" || { printf 'no %q in:\n%s\n' "$2" "$1"; return 1; }; }
daemon_pid() { property lineage MainPID; }
tester() { setpriv --reuid tester --regid tester --init-groups "$@"; }
# id_of prints the id of a session, once there is one of that name.
id_of() { lineage ls -o jsonl | sed -n "s/.*\"id\":\"\([^\"]*\)\",\"name\":\"$1\".*/\1/p"; }
there() { [ -n "$(id_of "$1")" ]; }
# the_sleep prints the PID of the sleep that has this argument.
the_sleep() { pgrep -f "^(/usr/bin/)?sleep $1\$"; }
# session starts a session in a unit of its own; its script leaves a daemonised
# sleep NUMBER and waits.
session() {
	systemd-run --quiet --unit="lngtest-$1" --service-type=exec \
		lineage run --name "$1" --grace 0s --subreaper=false -- bash -c "(setsid sleep $2 &); exec sleep 1$2"
	until_ the_sleep "$2"
	until_ there "$1"
}

install_() {
	out=$(packaging/install.sh)
	has "$out" 'start it with: systemctl enable --now lineage'
	grep -q '^lineage:' /etc/group
	systemctl cat lineage.service lineage.socket >/dev/null
}
verify() {
	systemd-analyze verify --man=no lineage.service lineage.socket 2>&1 | tee /tmp/verify
	[ ! -s /tmp/verify ]
	systemd-analyze security --no-pager lineage.service | tail -n 1
}
start() {
	systemctl enable --quiet --now lineage || { journalctl -u lineage -o cat; return 1; }
	is "$(property lineage ActiveState)" active 'lineage.service'
	lineage ls
	text() { property lineage StatusText; }
	level() { text | grep -q '^level [234], observe, 0 sessions'; }
	until_ level
	text
	lineage doctor || { lineage doctor; return 1; }
}
capabilities() {
	for task in "/proc/$(daemon_pid)"/task/*/status; do
		for want in CapEff:0000000000080024 CapPrm:0000000000080024 CapBnd:0000000000080024 CapInh:0000000000000000 NoNewPrivs:1; do
			has "$(tr -d '\t' <"$task")" "^$want\$"
		done
	done
}
journal() { # in its own words, with their level and fields
	said=$(journalctl -u lineage -o json MESSAGE=serving)
	has "$said" '"PRIORITY":"6"'
	has "$said" '"_PID":"'"$(daemon_pid)"'"'
}
sessions() { session one 3001; lineage tree one; }
others() { # what other users hold: procfs of theirs is read
	tester lineage run --name theirs --grace 0s -- bash -c 'exec 9>/tmp/held; exec sleep 3002' &
	until_ the_sleep 3002
	has "$(lineage why /tmp/held)" theirs
	lineage end --yes theirs
	wait
}
reload() {
	before=$(daemon_pid)
	printf 'version: 1\nmode: enforce\n' >/etc/lineage/policy.yaml
	systemctl reload lineage
	enforces() { lineage policy show | grep -q 'mode.*enforce'; }
	until_ enforces
	printf 'nonsense\n' >/etc/lineage/policy.yaml
	systemctl reload lineage
	refused() { property lineage StatusText | grep -q 'policy file was not taken'; }
	until_ refused
	enforces
	is "$(property lineage ActiveState)" active 'after a bad policy'
	printf 'version: 1\n# mine\n' >/etc/lineage/policy.yaml
	systemctl reload lineage
	observes() { property lineage StatusText | grep -q 'observe, 1 session$'; }
	until_ observes
	is "$(daemon_pid)" "$before" 'PID after a reload'
}
restart() {
	before=$(daemon_pid) id=$(id_of one)
	systemctl restart lineage
	[ "$(daemon_pid)" != "$before" ]
	is "$(id_of one)" "$id" 'session after a restart'
	has "$(lineage why "$(the_sleep 3001)")" "session $id one"
}
upgrade() {
	before=$(daemon_pid) id=$(id_of one)
	has "$(packaging/install.sh)" 'systemctl restart lineage'
	is "$(daemon_pid)" "$before" 'PID after an install'
	systemctl restart lineage
	is "$(id_of one)" "$id" 'session after an upgrade'
	grep -q '# mine' /etc/lineage/policy.yaml
}
killed() {
	before=$(daemon_pid) id=$(id_of one)
	kill -KILL "$before"
	again() { [ "$(daemon_pid)" != "$before" ] && systemctl is-active --quiet lineage; }
	until_ again
	is "$(id_of one)" "$id" 'session after SIGKILL'
}
watchdog() { # a stopped daemon is missed
	mkdir -p /run/systemd/system/lineage.service.d
	printf '[Service]\nWatchdogSec=5s\nTimeoutAbortSec=1s\n' >/run/systemd/system/lineage.service.d/lngtest.conf
	systemctl daemon-reload
	systemctl restart lineage
	before=$(daemon_pid) id=$(id_of one)
	kill -STOP "$before"
	again() { [ "$(daemon_pid)" != "$before" ] && systemctl is-active --quiet lineage; }
	until_ again
	[ "$(property lineage NRestarts)" -ge 1 ]
	is "$(id_of one)" "$id" 'session after the watchdog'
	rm -r /run/systemd/system/lineage.service.d
	systemctl daemon-reload
}
flags() { # from /etc/default/lineage
	echo 'LINEAGE_DAEMON_FLAGS=--socket-mode 0660 --socket-group lineage' >/etc/default/lineage
	systemctl restart lineage
	is "$(stat -c '%a %G' /run/lineage/lineage.sock)" '660 lineage' 'the socket'
	! tester lineage ls || return 1
	usermod -aG lineage tester
	tester lineage ls >/dev/null
	rm /etc/default/lineage
}
broker() { # systemd-run from inside a session: what is seen of it today
	systemd-run --quiet --unit=lngtest-two --service-type=exec lineage run --name two --grace 0s -- \
		bash -c 'systemd-run --quiet --unit=lngtest-broker sleep 3003; exec sleep 13003'
	until_ the_sleep 3003
	lineage why "$(the_sleep 3003)" | tee /tmp/why || true
	! grep -q 'session .* two' /tmp/why || return 1
	lineage end --yes two
	the_sleep 3003 # is nobody's, and lives
	systemctl stop lngtest-broker
}
reaper() { # an orphan that goes to systemd --user still belongs to its session
	systemctl start user@0.service
	export XDG_RUNTIME_DIR=/run/user/0
	systemd-run --user --quiet --unit=lngtest-three --service-type=exec \
		lineage run --name three --grace 0s --subreaper=false -- bash -c '(setsid sleep 3004 &); exec sleep 13004'
	until_ the_sleep 3004
	until_ there three
	orphan=$(the_sleep 3004) manager=$(property user@0.service MainPID)
	is "$(ps -o ppid= -p "$orphan" | tr -d ' ')" "$manager" 'the orphan'"'"'s parent'
	lineage why "$orphan" | tee /tmp/why
	grep -q "session $(id_of three) three" /tmp/why
	grep -q "parent now $manager" /tmp/why
	lineage end --yes three
	! the_sleep 3004 || return 1
	is "$(property user@0.service ActiveState)" active 'the user manager'
	systemctl stop user@0.service
}
socket() { # the first who asks starts it
	id=$(id_of one)
	systemctl stop lineage
	mkdir -p /run/systemd/system/lineage.socket.d
	printf '[Socket]\nSocketMode=0660\nSocketGroup=lineage\n' >/run/systemd/system/lineage.socket.d/lngtest.conf
	systemctl daemon-reload
	systemctl start lineage.socket
	is "$(property lineage ActiveState)" inactive 'before anybody asked'
	is "$(id_of one)" "$id" 'session after the activation'
	is "$(property lineage ActiveState)" active 'after somebody asked'
	is "$(stat -c '%a %G' /run/lineage/lineage.sock)" '660 lineage' 'the socket'
	systemctl restart lineage
	is "$(id_of one)" "$id" 'session after a restart on the same socket'
	tester lineage run -- bash -c 'id -u' | grep -x 1000
	rm -r /run/systemd/system/lineage.socket.d
	systemctl daemon-reload
}
unload() { # refused while systemd would start it again
	code=0
	out=$(lineage daemon --unload --force 2>&1) || code=$?
	is "$code" 4 'exit code'
	has "$out" 'systemctl stop lineage.socket lineage.service'
	[ -d $pins ]
}
stop() { # without a daemon the kernel goes on: the end of a root is the end of its session
	session four 3005
	systemctl stop lineage.socket lineage.service
	[ ! -e /run/lineage/lineage.sock ]
	[ -d $pins ]
	the_sleep 3001
	kill -KILL "$(the_sleep 13005)"
	gone() { ! the_sleep 3005; }
	until_ gone
}
uninstall() {
	systemctl start lineage
	code=0
	out=$(packaging/uninstall.sh 2>&1) || code=$?
	is "$code" 1 'with live sessions'
	has "$out" 'sessions are live'
	is "$(property lineage ActiveState)" active 'after a refused uninstall'
	systemctl stop lineage # the pins alone tell, too
	code=0
	out=$(packaging/uninstall.sh 2>&1) || code=$?
	is "$code" 1 'with live sessions and no daemon'
	has "$out" 'nothing was removed'
	systemctl start lineage
	lineage end --yes one
	out=$(packaging/uninstall.sh)
	has "$out" 'kept: /etc/lineage/policy.yaml'
	[ ! -e $pins ]
	[ ! -e /usr/local/bin/lineage ]
	! systemctl cat lineage.service 2>/dev/null || return 1
	! systemctl cat lineage.socket 2>/dev/null || return 1
	! pgrep -x lineage || return 1
	PURGE=1 packaging/uninstall.sh
	[ ! -e /etc/lineage ] && [ ! -e /var/lib/lineage ] && [ ! -e /var/log/lineage ] && [ ! -e /run/lineage ]
}
force() { # FORCE=1: the processes of a session go on
	packaging/install.sh >/dev/null
	systemctl start lineage
	session five 3006
	FORCE=1 packaging/uninstall.sh
	[ ! -e $pins ]
	the_sleep 3006
	systemctl stop lngtest-five
	pkill -f '^sleep 3006$'
}

# Each stands on those before it.
for name in install_ verify start capabilities journal sessions others reload restart upgrade killed watchdog flags broker \
	reaper socket unload stop uninstall force; do
	[ -z "${ONLY:-}" ] || [[ " $ONLY " == *" $name "* ]] || continue
	check "$name"
	[ "$code" -eq 0 ] || break
done
printf '\036done\n'
stty -F /dev/ttyS1 drain 2>/dev/null
