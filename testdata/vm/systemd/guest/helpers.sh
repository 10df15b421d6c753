# shellcheck shell=bash disable=SC2317
# helpers.sh: to be sourced by the scripts that run in the guest.

# until_ waits for a command that has no event to wait for.
until_() {
	local until=$((EPOCHSECONDS + 90))
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

# check runs one in a shell of its own, for limit seconds at most, else four minutes.
check() {
	local code=0 began=${EPOCHREALTIME/./}
	printf '\036begin %s\n' "$1"
	timeout -k 5 "${limit:-240}" bash "$0" "$1" 2>&1 || code=$?
	[ "$code" -eq 0 ] || {
		[ "$code" -ne 124 ] || ps -eo pid,ppid,stat,wchan:20,args --forest | tail -n 30
		journalctl -u lineage -u lineage.socket -u lineage-export -u lineage-link -u atd -u cron -o short-monotonic --no-hostname -n 200 | grep -v 0x | tail -n 60
		! declare -F mend >/dev/null || [ ! -e /usr/local/bin/lineage ] || timeout 60 bash "$0" mend
	}
	printf '\n\036end %d %d %s\n' "$code" $(((${EPOCHREALTIME/./} - began) / 1000)) "$1"
	return "$code"
}
