# shellcheck shell=sh disable=SC2154
# unload.sh: takes lineage out of the kernel before its files are removed. It is
# sourced by uninstall.sh and is the beginning of the packages' prerm, so it is
# POSIX sh. The caller sets:
#   binary      the program
#   force       not empty: with live sessions, too
#   force_with  what a user writes to force it, for the message
units='lineage.service lineage.socket lineage-export.service lineage-link.service'

managed_now() { [ -d /run/systemd/system ] && command -v systemctl >/dev/null; }

# refuse_live fails while anything is live, before anything is stopped.
refuse_live() {
	[ -z "$force" ] || return 0
	ids=$("$binary" ls -o name 2>/dev/null) || return 0 # no daemon: unload looks at the pins
	[ -z "$ids" ] || {
		echo "lineage: live sessions: $(echo "$ids" | wc -l) (\"lineage ls\"); end them, or set $force_with: their processes keep running, untracked" >&2
		return 1
	}
}

# unload takes the programs out of the kernel. It asks again, under a lock: a
# session that came in meanwhile is not lost, and the daemon is started again.
unload() {
	was=
	if managed_now; then
		for unit in $units; do
			! systemctl is-active --quiet "$unit" || was="$was $unit"
		done
		# shellcheck disable=SC2086 # words
		systemctl stop $units 2>/dev/null || true
	fi
	if ! "$binary" daemon --unload ${force:+--force}; then
		# shellcheck disable=SC2086
		[ -z "$was" ] || systemctl start $was
		return 1
	fi
	if managed_now; then
		# shellcheck disable=SC2086
		systemctl disable --quiet $units 2>/dev/null || true
	fi
	profile=/etc/apparmor.d/lineage-daemon
	if [ -e $profile ] && [ -e /sys/kernel/security/apparmor ] && command -v apparmor_parser >/dev/null; then
		apparmor_parser -R $profile 2>/dev/null || true # it was not loaded
	fi
}
