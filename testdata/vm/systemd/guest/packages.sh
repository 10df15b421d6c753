#!/bin/bash
# packages.sh: the life of the package on a Debian with systemd: installed, upgraded
# with live sessions, rolled back, removed, purged. /src/previous.deb is of the
# commit that the test names, /src/new.deb of this one.
# packages.sh NAME runs one of the checks.
# shellcheck disable=SC2317 # functions that until_ calls
set -uo pipefail
cd /src || exit 1
self=$PWD/testdata/vm/systemd/guest
export PATH=/usr/bin:/usr/sbin NO_COLOR=1 DEBIAN_FRONTEND=noninteractive
# shellcheck source=testdata/vm/systemd/guest/helpers.sh
. "$self/helpers.sh"
pins=/sys/fs/bpf/lineage
sessions=$(cat sessions)
limit=900 # seconds for a check: emulated on a busy host, each session takes some
apt() { apt-get -q -y -o Dpkg::Use-Pty=0 "$@"; }
ids() { lineage ls -o name | sort; }
counts() { lineage ls -o jsonl | sed -n 's/.*"id":"\([^"]*\)","name":"\(s[0-9]*\)".*"live":\([0-9]*\).*/\1 \2 \3/p' | sort; }
least() { [ "$(lineage ls -o name | wc -l)" -ge "$1" ]; }
many() { [ "$(lineage ls -o name | wc -l)" -eq "$1" ]; }

install_() {
	apt install ./previous.deb
	is "$(dpkg-query -Wf '${Status}' lineage)" 'install ok installed' 'the package'
	is "$(property lineage ActiveState)" inactive 'after the installation'
	is "$(systemctl is-enabled lineage)" disabled 'after the installation'
	getent group lineage
	[ -d /etc/lineage ] && [ ! -e /etc/lineage/policy.yaml ]
}
start() {
	systemctl enable --quiet --now lineage || { journalctl -u lineage -o cat; return 1; }
	lineage doctor
	lineage run -- true
}
# agent starts a process that the agent rule of the policy knows.
agent() { systemd-run --quiet --unit="lngtest-agent$1" --service-type=exec /usr/local/bin/lngtest-agent -c "sleep $((5000 + $1)) & wait"; }
several() { # sessions, one after the other, some of agents, and one that forks as fast as it can
	cp /bin/bash /usr/local/bin/lngtest-agent
	printf '%s\n' 'version: 1' 'agents:' '  - {name: worker, enabled: true, match: {comm: lngtest-agent, exe: /usr/local/bin/lngtest-agent}}' >/etc/lineage/policy.yaml
	lineage policy check /etc/lineage/policy.yaml
	systemctl reload lineage
	for n in 1 2 3; do agent "$n"; done
	until_ least 3
	# shellcheck disable=SC2016 # the shell of the unit expands it
	systemd-run --quiet --unit=lngtest-many --service-type=exec bash -c 'for ((i = 1; i <= $1; i++)); do
		lineage run --name "s$i" --grace 0s -- sleep $((4000 + i)) &
		until pgrep -f "^sleep $((4000 + i))\$" >/dev/null; do sleep 0.5; done
	done
	lineage run --name storm --grace 0s -- bash -c "while [ ! -e /tmp/calm ]; do (:); done; sleep 4999" &
	wait' several "$sessions"
	for ((n = 1; n <= sessions + 1; n++)); do
		until_ least "$((n + 3))"
	done
}
# covered tells that each agent has a session.
covered() { [ "$(lineage ls -o jsonl | grep -c '"rule":"worker"')" -eq "$(pgrep -cx lngtest-agent)" ]; }
# same tells that another daemon has the sessions of before, with their members.
same() {
	[ "$(daemon_pid)" != "$1" ] || { echo 'the daemon was not restarted'; return 1; }
	is "$(property lineage ActiveState)" active 'after a package was installed'
	is "$(comm -13 <(ids) <(echo "$2"))" '' 'ids that are gone'
	until_ covered
	for i in 1 $((sessions / 2 + 1)) "$sessions"; do
		has "$(lineage why "$(pgrep -f "^sleep $((4000 + i))\$")")" "session s$i ("
	done
}
# installing installs a package while agents start, the first one with this number.
installing() {
	for ((n = $1; n < $1 + 10; n++)); do agent "$n"; sleep 0.5; done &
	shift
	apt install "$@"
	wait $!
}
upgrade() {
	pid=$(daemon_pid) before=$(ids) live=$(counts)
	is "$(wc -l <<<"$live")" "$sessions" 'sessions that are counted'
	installing 10 ./new.deb
	same "$pid" "$before"
	is "$(counts)" "$live" 'live members'
}
rollback() {
	pid=$(daemon_pid) before=$(ids)
	installing 20 --allow-downgrades ./previous.deb
	same "$pid" "$before"
}
again() {
	pid=$(daemon_pid) before=$(ids)
	installing 30 ./new.deb
	same "$pid" "$before"
	has "$(lineage why "$(pgrep -o -f "^bash -c while")")" "session storm ("
	touch /tmp/calm
}
# confine gives the daemon its profile, and checks that every command still works.
confine() {
	mkdir -p /etc/systemd/system/lineage.service.d
	printf '[Service]\nAppArmorProfile=lineage-daemon\n' >/etc/systemd/system/lineage.service.d/apparmor.conf
	systemctl daemon-reload
	systemctl restart lineage
	is "$(cat "/proc/$(daemon_pid)/attr/current")" 'lineage-daemon (enforce)' 'the profile of the daemon'
}
denied() { dmesg | grep -a 'apparmor="DENIED".*profile="lineage-daemon"'; }
apparmor() { # all that a daemon does, under the profile
	pid=$(daemon_pid) before=$(ids)
	confine
	same "$pid" "$before"
	checked() { has "$(lineage doctor)" 'self-check .* passed'; }
	until_ checked
	systemd-run --quiet --unit=lngtest-holds --service-type=exec lineage run --name holds --grace 0s -- bash -c '
		systemd-socket-activate -l 127.0.0.1:8111 sleep 1 & systemd-socket-activate -l /tmp/holds.sock sleep 1 & exec flock /tmp/holds.lock sleep 6000'
	held() { has "$(lineage why "$1" 2>&1)" 'session holds ('; }
	for what in :8111 /tmp/holds.sock /tmp/holds.lock; do
		until_ held "$what"
	done
	lineage end --yes --branch "$(pgrep -f '^sleep 6000$')"
	lineage end --yes holds
	systemctl reload lineage
	lineage adopt --name adopted "$(systemd-run --quiet --unit=lngtest-adopted --service-type=exec sleep 6001; property lngtest-adopted MainPID)"
	lineage end --yes --grace 0s adopted
	! pgrep -f '^sleep 600[01]$' || return 1
	echo 'LINEAGE_DAEMON_FLAGS=--socket-mode 0660 --socket-group lineage' >/etc/default/lineage
	pid=$(daemon_pid)
	apt install --reinstall ./new.deb
	same "$pid" "$before"
	is "$(stat -c '%a %G' /run/lineage/lineage.sock)" '660 lineage' 'the socket'
	rm /etc/default/lineage
	systemctl restart lineage
	! denied || return 1
}
# What the profile costs: below level 3 the daemon itself sends the signals, and a process that
# takes them from unconfined ones only takes none of its.
confined() {
	apparmor_parser -r <<<'profile lngtest-member { file, capability, network, unix, signal (receive) peer=unconfined, ptrace (readby), }'
	member() { systemd-run --quiet --unit="lngtest-$1" --service-type=exec lineage run --name "$1" --grace 0s -- aa-exec -p lngtest-member -- sleep "$2"; }
	member under 6002
	until_ pgrep -f '^sleep 6002$'
	code=0
	lineage end --yes under || code=$?
	echo "under the profile: exit code $code, level $(lineage doctor | grep -o 'level [0-9] of')"
	if lineage doctor | grep -q 'level 2 of'; then
		is "$code" 6 'exit code of end'
	fi
	rm -r /etc/systemd/system/lineage.service.d
	systemctl daemon-reload
	systemctl restart lineage
	is "$(cat "/proc/$(daemon_pid)/attr/current")" unconfined 'the profile of the daemon'
	lineage end --yes under || true
	member free 6003
	until_ pgrep -f '^sleep 6003$'
	lineage end --yes free
	gone() { ! pgrep -f '^sleep 600[23]$'; }
	until_ gone
}
refused() { # with live sessions, and the package is as before
	before=$(ids)
	code=0
	out=$(apt remove lineage 2>&1) || code=$?
	is "$code" 100 'exit code of apt'
	has "$out" 'live sessions: '
	has "$out" 'LINEAGE_FORCE=1'
	is "$(dpkg-query -Wf '${Status}' lineage)" 'install ok installed' 'the package'
	is "$(dpkg --audit)" '' 'what dpkg complains about'
	is "$(property lineage ActiveState)" active 'after a refused removal'
	is "$(ids)" "$before" 'ids'
	systemctl stop lineage # the pins alone tell, too
	code=0
	out=$(apt remove lineage 2>&1) || code=$?
	is "$code" 100 'exit code of apt without a daemon'
	has "$out" 'nothing was removed'
	systemctl start lineage
	is "$(ids)" "$before" 'ids'
}
receipts() { # one for each session that was carried over, agents' too
	before=$(ids)
	lineage end --all --yes >/dev/null
	until_ many 0
	lineage history -o jsonl --limit 0 >/tmp/history
	for name in '"name":"s[0-9]*"' '"name":"storm"' '"rule":"worker"'; do
		grep "$name" /tmp/history >/tmp/some
		echo "$(wc -l </tmp/some) receipts with $name"
		is "$(grep -vc '"verdict":"clean"' /tmp/some)" 0 'receipts that are not clean'
	done
	is "$(grep -c '"name":"s[0-9]*"' /tmp/history)" "$sessions" 'receipts of sessions'
	is "$(grep -c '"rule":"worker"' /tmp/history)" 33 'receipts of agents'
	is "$(comm -13 <(grep -o '"id":"[^"]*"' /tmp/history | cut -d'"' -f4 | sort -u) <(echo "$before"))" '' 'sessions without a receipt'
	! pgrep -f '^sleep [45][0-9][0-9][0-9]$' || return 1
	! pgrep -x lngtest-agent || return 1
}
remove() {
	apt remove lineage
	[ ! -e $pins ] && [ ! -e /usr/bin/lineage ] && [ ! -e /usr/lib/systemd/system/lineage.service ]
	[ -e /var/lib/lineage/history.db ]
	! pgrep -x lineage || return 1
}
purge() {
	apt purge lineage
	is "$(dpkg-query -Wf '${Status}' lineage 2>/dev/null)" '' 'the package'
	is "$(find / -xdev -name '*lineage*' -not -path '/src/*' -not -path '/var/log/*')" '' 'what is left'
}
force() { # the processes of a session keep running
	apt install ./new.deb
	systemctl start lineage
	systemd-run --quiet --unit=lngtest-five --service-type=exec lineage run --name five --grace 0s -- sleep 3006
	until_ pgrep -f '^sleep 3006$'
	LINEAGE_FORCE=1 apt purge lineage
	[ ! -e $pins ]
	pgrep -f '^sleep 3006$'
	systemctl stop lngtest-five
}
if [ $# -gt 0 ]; then
	set -eE
	trap 'echo "${BASH_SOURCE##*/}:$LINENO: $BASH_COMMAND: exit $?" >&2' ERR
	"$1"
	exit
fi

stty -F /dev/ttyS1 -onlcr raw 2>/dev/null
for name in install_ start several upgrade rollback again apparmor confined refused receipts remove purge force; do
	check "$name" || break # each stands on those before it
done
printf '\036done\n'
stty -F /dev/ttyS1 drain 2>/dev/null
