#!/bin/bash
# checks.sh: what a host with systemd has to see of lineage, in the order in which
# an operator would. Runs in the guest, from a unit of its own. Each check is a
# function; what it prints goes between the marks that package guest knows.
# checks.sh NAME runs one of them.
# shellcheck disable=SC2317 # functions that until_ calls
set -uo pipefail
cd /src || exit 1
self=$PWD/testdata/vm/systemd/guest
export PATH=/usr/local/bin:/usr/bin:/usr/sbin PREFIX=/usr/local NO_COLOR=1

# shellcheck source=testdata/vm/systemd/guest/helpers.sh
. "$self/helpers.sh"
tester() { setpriv --reuid tester --regid tester --init-groups "$@"; }
# id_of prints the id of a session, once there is one of that name.
id_of() { lineage ls -o jsonl | sed -n "s/.*\"id\":\"\([^\"]*\)\",\"name\":\"$1\".*/\1/p"; }
there() { [ -n "$(id_of "$1")" ]; }
# the_sleep prints the PID of the sleep that has this argument.
the_sleep() { pgrep -f "^(/usr/bin/)?sleep $1\$"; }
gone() { ! the_sleep "$1"; }
# session starts a session in a unit of its own; its script leaves a daemonised
# sleep NUMBER and waits.
session() {
	systemd-run --quiet --unit="lngtest-$1" --service-type=exec \
		lineage run --name "$1" --grace 0s --subreaper=false -- bash -c "(setsid sleep $2 &) && exec sleep 1$2"
	until_ the_sleep "$2"
	until_ there "$1"
}
# policy has the daemon take a policy of these lines.
policy() {
	printf 'version: 1\n%s\n' "$1" >/etc/lineage/policy.yaml
	systemctl reload lineage
}
mode() { property lineage StatusText | grep -q "^level [0-9], $1,"; }

# shellcheck source=testdata/vm/systemd/guest/service.sh
. "$self/service.sh"
# shellcheck source=testdata/vm/systemd/guest/brokers.sh
. "$self/brokers.sh"

# mend leaves to the next check what it stands on.
mend() {
	rm -rf /run/systemd/system/lineage.{service,socket}.d /etc/default/lineage
	systemctl daemon-reload
	policy ''
	systemctl stop atd cron
	systemctl start lineage
	lineage ls -o jsonl | sed -n 's/.*"id":"\([^"]*\)","name":"\([^"]*\)".*/\1 \2/p' | while read -r id name; do
		[ "$name" = one ] || lineage end --yes "$id"
	done
}
if [ $# -gt 0 ]; then
	set -eE
	trap 'echo "${BASH_SOURCE##*/}:$LINENO: $BASH_COMMAND: exit $?" >&2' ERR
	"$1"
	exit
fi

stty -F /dev/ttyS1 -onlcr raw 2>/dev/null
base='install_ start sessions' # what all the others stand on
only=
[ ! -e only ] || only=$(cat only)
for name in install_ verify start capabilities network exports journal sessions others reload restart upgrade killed dead watchdog flags \
	recipe systemd_run systemd_run_user cgroups limits at_cron reaper socket unload stop uninstall force; do
	[ -z "$only" ] || [[ " $base $only " == *" $name "* ]] || continue
	check "$name" || [[ " $base " != *" $name "* ]] || break
done
printf '\036done\n'
stty -F /dev/ttyS1 drain 2>/dev/null
