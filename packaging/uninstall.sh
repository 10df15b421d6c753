#!/bin/bash
# uninstall.sh: removes what install.sh installed, and the programs in the kernel.
# `make uninstall` calls it. FORCE=1: even with live sessions; their processes keep
# running, in no session. PURGE=1: policy, history and audit log too.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/layout.sh
. packaging/unload.sh
unset LINEAGE_SOCKET # the host's own instance is meant
FORCE=${FORCE:-} PURGE=${PURGE:-}
binary=$bindir/lineage force=$FORCE force_with=FORCE=1

if live; then
	[ "$(id -u)" -eq 0 ] || { echo 'uninstall: not root; run with sudo' >&2; exit 1; }
	if [ -x "$binary" ]; then
		refuse_live
		unload || { echo 'uninstall: nothing was removed' >&2; exit 1; }
	elif compgen -G '/sys/fs/bpf/lineage*' >/dev/null; then
		say "there is no $binary: the programs that are in the kernel stay in it until the next boot"
	fi
fi

remove() { rm -f "$DESTDIR$1"; }
remove "$binary"
remove "$libexecdir/lineage-mcp"
remove "$libexecdir/lineage-export"
remove "$libexecdir/lineage-link"
rmdir "$DESTDIR$libexecdir" 2>/dev/null || true
for page in "$DESTDIR$mandir"/man[1578]/lineage.[1578] "$DESTDIR$mandir"/man[1578]/lineage-*.[1578]; do
	rm -f "$page"
done
remove "$bashdir/lineage"
remove "$zshdir/_lineage"
remove "$fishdir/lineage.fish"
for name in policy.yaml policy.schema.json agents.yaml build-daemons.yaml alerts.yml dashboard.json LICENSE NOTICES; do
	remove "$docdir/$name"
done
remove "$sysusersdir/lineage.conf"
remove "$apparmordir/lineage-daemon"
remove "$presetdir/90-lineage.preset"
for unit in $units; do
	remove "$unitdir/$unit"
done
rmdir "$DESTDIR$docdir" 2>/dev/null || true
managed && systemctl daemon-reload

if [ -n "$PURGE" ]; then
	rm -rf "$DESTDIR$confdir" "$DESTDIR$statedir" "$DESTDIR$logdir" "$DESTDIR"/var/{lib,log}/{,private/}lineage-export "$DESTDIR"/var/lib/{,private/}lineage-link
	live && rm -rf /run/lineage
	say 'removed, with policy, history and audit log; the group lineage stays'
else
	rmdir "$DESTDIR$confdir" 2>/dev/null || true
	for kept in "$confdir/policy.yaml" "$statedir" "$logdir"; do
		[ ! -e "$DESTDIR$kept" ] || say "kept: $kept"
	done
	say 'removed; the group lineage stays. PURGE=1 removes policy, history and audit log too'
fi
