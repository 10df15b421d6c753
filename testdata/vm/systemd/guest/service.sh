# shellcheck shell=bash disable=SC2154,SC2317
# service.sh: to be sourced by checks.sh. The units: how they are installed,
# started, changed, found dead, and removed.
pins=/sys/fs/bpf/lineage

install_() {
	out=$(packaging/install.sh)
	has "$out" 'start it with: systemctl enable --now lineage'
	grep -q '^lineage:' /etc/group
	systemctl cat lineage.service lineage.socket >/dev/null
}
verify() {
	systemd-analyze verify --man=no lineage.service lineage.socket lineage-export.service lineage-link.service 2>&1 | tee /tmp/verify
	[ ! -s /tmp/verify ]
	systemd-analyze security --no-pager --threshold=29 lineage.service | grep -E '^(✗|→)'
	systemd-analyze security --no-pager --threshold=20 lineage-export.service | grep -E '^(✗|→)'
	systemd-analyze security --no-pager --threshold=20 lineage-link.service | grep -E '^(✗|→)'
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
capabilities() { # and its priority
	for task in "/proc/$(daemon_pid)"/task/*/status; do
		for want in CapEff:0000000000080024 CapPrm:0000000000080024 CapBnd:0000000000080024 CapInh:0000000000000000 NoNewPrivs:1; do
			has "$(tr -d '\t' <"$task")" "^$want\$"
		done
	done
	has "$(cat "/proc/$(daemon_pid)/autogroup")" 'nice -20'
}
journal() { # in its own words, with their level and fields
	said=$(journalctl -u lineage -o json MESSAGE=serving)
	has "$said" '"PRIORITY":"6"'
	has "$said" '"_PID":"'"$(daemon_pid)"'"'
}
network() { # the daemon has none; the host's ports and sockets it knows all the same
	for space in net mnt; do
		[ "$(readlink "/proc/$(daemon_pid)/ns/$space")" != "$(readlink /proc/1/ns/$space)" ]
	done
	systemd-run --quiet --unit=lngtest-stranger systemd-socket-activate -l 127.0.0.1:8101 sleep 1
	agent ports 'systemd-socket-activate -l 127.0.0.1:8102 sleep 1 &
		systemd-socket-activate -d -l 127.0.0.1:8103 sleep 1 &
		systemd-socket-activate -l /tmp/ports.sock sleep 1 &'
	listening() { has "$(lineage why "$1" 2>&1)" "$2"; }
	until_ listening :8101 'holds tcp 127.0.0.1:8101'
	for at in :8102 :8103/udp /tmp/ports.sock; do
		until_ listening "$at" 'session ports ('
	done
	for port in 'tcp 127.0.0.1:8102' 'udp 127.0.0.1:8103' 'unix /tmp/ports.sock'; do
		has "$(lineage end --dry-run ports)" "$port"
	done
	lineage end --yes ports | tee /tmp/end
	has "$(cat /tmp/end)" 'freed tcp 127.0.0.1:8102'
	! lineage why :8102 || return 1
	systemctl stop lngtest-stranger
}
exports() { # the metrics on TCP, by a user with no right but to read
	echo 'LINEAGE_EXPORT_FLAGS=--metrics 127.0.0.1:9750' >/etc/default/lineage-export
	systemctl start lineage-export
	scraped() { # shellcheck disable=SC2094
		has "$(exec 3<>/dev/tcp/127.0.0.1/9750 && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3)" "$1"
	}
	until_ scraped '^lineage_level [234]'
	status=/proc/$(property lineage-export MainPID)/status
	for want in 'CapEff:0000000000000000' 'CapBnd:0000000000000000' 'NoNewPrivs:1' 'Seccomp:2'; do
		has "$(tr -d '\t' <"$status")" "^$want\$"
	done
	[ "$(stat -c %u "$status")" -ge 61184 ] # of systemd's dynamic users
	code=0
	out=$(tester lineage export --metrics 127.0.0.1:9751 2>&1) || code=$?
	is "$code" 4 'exit code of a user outside the group'
	has "$out" 'only root and the group lineage may'
	code=0
	out=$(lineage export --metrics 127.0.0.1:9750 2>&1) || code=$?
	is "$code" 1 'exit code with an address that is in use'
	systemctl stop lineage
	until_ scraped '502 Bad Gateway'
	systemctl start lineage
	until_ scraped '^lineage_level [234]'
	systemctl stop lineage-export
	printf 'version: 1\ndaemon: {metrics: 127.0.0.1:9750}\n' >/etc/lineage/policy.yaml
	systemctl reload lineage
	refused() { property lineage StatusText | grep -q 'policy not applied'; }
	until_ refused
	has "$(lineage policy check /etc/lineage/policy.yaml 2>&1)" 'lineage export --metrics' || return 1
	policy ''
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
	policy 'mode: enforce'
	until_ mode enforce
	has "$(lineage policy show)" 'mode.*enforce'
	printf 'nonsense\n' >/etc/lineage/policy.yaml
	systemctl reload lineage
	refused() { property lineage StatusText | grep -q 'policy not applied'; }
	until_ refused
	has "$(lineage policy show)" 'mode.*enforce'
	is "$(property lineage ActiveState)" active 'after a bad policy'
	policy '# mine'
	observes() { property lineage StatusText | grep -q 'observe, 1 session$'; }
	until_ observes
	is "$(daemon_pid)" "$before" 'PID after a reload'
}
restart() {
	before=$(daemon_pid) id=$(id_of one)
	flock /run/lineage/lock sleep 7 & # as a command does that starts a daemon, on a slow host
	systemctl restart lineage
	wait
	[ "$(daemon_pid)" != "$before" ]
	is "$(id_of one)" "$id" 'session after a restart'
	has "$(lineage why "$(the_sleep 3001)")" "session one ($id)"
}
upgrade() { # to a binary that says another version
	before=$(daemon_pid) id=$(id_of one)
	policy '# mine'
	cp upgrade/lineage bin/lineage
	has "$(packaging/install.sh)" 'systemctl restart lineage'
	is "$(daemon_pid)" "$before" 'PID after an install'
	has "$(lineage version)" '^lineage.*lngtest-upgrade'
	! lineage version | grep -q '^daemon.*lngtest-upgrade' || return 1
	systemctl restart lineage
	has "$(lineage version)" '^daemon.*lngtest-upgrade'
	is "$(id_of one)" "$id" 'session after an upgrade'
	has "$(lineage why "$(the_sleep 3001)")" "session one ($id)"
}
# back tells that another daemon serves than the one of that PID.
back() { [ "$(daemon_pid)" != "$1" ] && systemctl is-active --quiet lineage; }
killed() { # by what it is, it comes back
	id=$(id_of one)
	for signal in KILL ABRT SEGV; do # a daemon that panics goes as with ABRT
		before=$(daemon_pid)
		kill -$signal "$before"
		until_ back "$before"
		is "$(id_of one)" "$id" "session after $signal"
	done
}
dead() { # what dies with its root, at the same moment: the kernel ends the rest, or the next daemon
	for level in 4 3 2; do
		echo "LINEAGE_DAEMON_FLAGS=--level $level" >/etc/default/lineage
		systemctl restart lineage
		session dead$level 310$level
		before=$(daemon_pid) began=${EPOCHREALTIME/./}
		kill -KILL "$before" "$(the_sleep "1310$level")"
		until_ gone "310$level"
		echo "level $level: gone after $(((${EPOCHREALTIME/./} - began) / 1000)) ms, emulated"
		until_ back "$before"
	done
	rm /etc/default/lineage
	systemctl restart lineage
}
watchdog() { # a stopped daemon is missed
	mkdir -p /run/systemd/system/lineage.service.d
	printf '[Service]\nWatchdogSec=5s\nTimeoutAbortSec=1s\n' >/run/systemd/system/lineage.service.d/lngtest.conf
	systemctl daemon-reload
	systemctl restart lineage
	before=$(daemon_pid) id=$(id_of one)
	kill -STOP "$before"
	until_ back "$before"
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
	systemctl restart lineage
	is "$(stat -c '%a %G' /run/lineage/lineage.sock)" '666 root' 'the socket, as it comes'
}
recipe() { # the unit of docs/RECIPES.md, as it stands there
	sed -n '/^<!-- recipe: systemd -->/,/^```$/p' docs/RECIPES.md | sed '1,2d;$d' >/run/systemd/system/lngtest-worker.service
	useradd -M worker
	printf '#!/bin/bash\ntrap "exit 0" TERM\n(setsid sleep 3007 &)\nwhile :; do sleep 1; done\n' >/usr/local/bin/worker
	chmod 755 /usr/local/bin/worker
	systemctl daemon-reload
	systemctl start lngtest-worker
	until_ the_sleep 3007
	until_ there worker
	the_sleep 3007 >/sys/fs/cgroup/cgroup.procs # out of the unit's
	systemctl stop lngtest-worker
	! the_sleep 3007 || return 1
	is "$(property lngtest-worker Result)" success 'the unit'
	has "$(journalctl -u lngtest-worker -o cat)" 'sleep 3007'
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
	until_ gone 3005
}
uninstall() {
	systemctl start lineage
	policy '# mine'
	code=0
	out=$(packaging/uninstall.sh 2>&1) || code=$?
	is "$code" 1 'with live sessions'
	has "$out" 'live sessions: '
	is "$(property lineage ActiveState)" active 'after a refused uninstall'
	systemctl stop lineage # the pins alone tell, too
	code=0
	out=$(packaging/uninstall.sh 2>&1) || code=$?
	is "$code" 1 'with live sessions and no daemon'
	has "$out" 'nothing was removed'
	systemctl start lineage
	lineage ls -o name | xargs lineage end --yes
	out=$(packaging/uninstall.sh)
	has "$out" 'kept: /etc/lineage/policy.yaml'
	[ ! -e $pins ]
	[ ! -e /usr/local/bin/lineage ]
	! systemctl cat lineage.service 2>/dev/null || return 1
	! systemctl cat lineage.socket 2>/dev/null || return 1
	! pgrep -x lineage || return 1
	out=$(PURGE=1 packaging/uninstall.sh)
	is "$out" 'removed, with policy, history and audit log; the group lineage stays' 'what purging says'
	[ ! -e /etc/lineage ] && [ ! -e /var/lib/lineage ] && [ ! -e /var/log/lineage ] && [ ! -e /run/lineage ]
}
force() { # FORCE=1: the processes of a session go on
	packaging/install.sh >/dev/null
	systemctl start lineage
	session five 3006
	FORCE=1 packaging/uninstall.sh
	[ ! -e $pins ]
	the_sleep 3006
	systemctl stop lngtest-five # in whose cgroup it still is
	! the_sleep 3006 || return 1
}
cgroups() { # of sessions, by the tests of their package
	dmesg -n 3 # the kernel's report of an OOM kill has a call trace
	LNGTEST_GUEST=1 ./cgroup.test -test.v -test.run '^TestSystemd'
	dmesg -n 7
}
limits() { # of sessions, in slices of systemd
	slices() { find /sys/fs/cgroup -name '*lineage_[0-9]*.slice' | grep .; }
	no_slice() { ! slices && ! systemctl list-units --all --no-legend '*lineage_*' | grep .; }
	# A user with MemoryMax= on the own slice cannot use more, whatever is asked for.
	systemctl set-property --runtime user-1000.slice MemoryMax=80M
	systemd-run --quiet --unit=lngtest-hog --slice=user-1000.slice --uid=tester --service-type=exec \
		lineage run --name hog --memory 64GiB -- bash -c '(tail /dev/zero); exec sleep 3010'
	until_ the_sleep 3010 # the runaway is dead, and its parent lives
	at=$(slices)
	has "$at" /user.slice/user-1000.slice/
	is "$(cat "$at/memory.max" "$at/memory.swap.max" | xargs)" '68719476736 0' 'the limits'
	has "$(cat "/proc/$(the_sleep 3010)/cgroup")" "/${at##*/}/.*\.scope\$"
	has "$(lineage ls -o jsonl)" '"memory_bytes":68719476736'
	has "$(lineage events hog --since 1h --type exit)" 'killed by the OOM killer: memory limit of an outer cgroup'
	lineage end --yes hog
	until_ no_slice
	systemctl revert user-1000.slice
	# The daemon dies: its next one has the same cgroup, a member outside, and the pause.
	systemd-run --quiet --unit=lngtest-kept --service-type=exec lineage run --name kept --memory 200MiB --max-tasks 50 -- \
		bash -c 'systemd-run --quiet --scope --unit=lngtest-away sleep 3012 & exec sleep 3011'
	until_ the_sleep 3012
	moved() { has "$(lineage events kept --since 1h --type moved)" 'lngtest-away.scope, outside of its session.s, by 1 systemd'; }
	until_ moved
	has "$(lineage ls -o jsonl)" '"unlimited":1'
	lineage pause kept
	before=$(daemon_pid)
	kill -9 "$before"
	until_ back "$before"
	has "$(lineage ls -o jsonl)" '"memory_bytes":209715200'
	frozen() { has "$(cat "$(slices)/cgroup.events")" "frozen $1"; }
	frozen 1
	lineage resume kept
	until_ frozen 0
	lineage end --yes kept
	until_ no_slice
	# A unit's own limit is not left.
	code=0
	out=$(systemd-run --quiet --wait --pipe -p MemoryMax=100M lineage run --memory 64GiB -- true 2>&1) || code=$?
	is "$code" 125 'exit code inside of a unit with MemoryMax='
	has "$out" 'memory.max of /system.slice/run-'
}
