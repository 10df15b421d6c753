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
several() { # sessions, one after the other, and one that forks
	# shellcheck disable=SC2016 # the shell of the unit expands it
	systemd-run --quiet --unit=lngtest-many --service-type=exec bash -c 'for ((i = 1; i <= $1; i++)); do
		lineage run --name "s$i" --grace 0s -- sleep $((4000 + i)) &
		until pgrep -f "^sleep $((4000 + i))\$" >/dev/null; do sleep 0.5; done
	done
	lineage run --name storm --grace 0s -- bash -c "for ((i = 0; i < 3000; i++)); do (:); sleep 0.05; done; sleep 4999" &
	wait' several "$sessions"
	for ((n = 1; n <= sessions + 1; n++)); do
		until_ least "$n"
	done
}
# same tells that another daemon has the sessions of before, with their members.
same() {
	[ "$(daemon_pid)" != "$1" ] || { echo 'the daemon was not restarted'; return 1; }
	is "$(property lineage ActiveState)" active 'after a package was installed'
	is "$(ids)" "$2" 'ids'
	for i in 1 $((sessions / 2 + 1)) "$sessions"; do
		has "$(lineage why "$(pgrep -f "^sleep $((4000 + i))\$")")" "session s$i ("
	done
}
upgrade() {
	pid=$(daemon_pid) before=$(ids) live=$(counts)
	is "$(wc -l <<<"$live")" "$sessions" 'sessions that are counted'
	apt install ./new.deb
	same "$pid" "$before"
	is "$(counts)" "$live" 'live members'
}
rollback() {
	pid=$(daemon_pid) before=$(ids)
	apt install --allow-downgrades ./previous.deb
	same "$pid" "$before"
}
again() {
	pid=$(daemon_pid) before=$(ids)
	apt install ./new.deb
	same "$pid" "$before"
}
refused() { # with live sessions, and the package is as before
	before=$(ids)
	code=0
	out=$(apt remove lineage 2>&1) || code=$?
	is "$code" 100 'exit code of apt'
	has "$out" 'sessions are live'
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
receipts() { # one for each session that was carried over
	lineage end --all --yes >/dev/null
	until_ many 0
	is "$(lineage history -o jsonl --limit 0 | grep -c '"name":"\(s[0-9]*\|storm\)"')" $((sessions + 1)) 'receipts'
	is "$(lineage history -o jsonl --limit 0 | grep '"name":"\(s[0-9]*\|storm\)"' | grep -vc '"verdict":"clean"')" 0 'receipts that are not clean'
	! pgrep -f '^sleep 4[0-9][0-9][0-9]$' || return 1
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
for name in install_ start several upgrade rollback again refused receipts remove purge force; do
	check "$name" || break # each stands on those before it
done
printf '\036done\n'
stty -F /dev/ttyS1 drain 2>/dev/null
