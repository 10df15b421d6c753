#!/bin/bash
# install.sh: installs what `make all` made. `make install` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/layout.sh

BUILT=${BUILT:-bin} # where the programs are: those of another architecture, for a package

for made in "$BUILT/lineage" "$BUILT"/lineage-{mcp,export,link} bin/man/lineage.1 bin/completion/lineage.bash bin/NOTICES; do
	[ -e "$made" ] || { echo "install: there is no $made; run: make all" >&2; exit 1; }
done

put() { # MODE FROM TO
	install -D -m "$1" "$2" "$DESTDIR$3"
}

put 755 "$BUILT/lineage" "$bindir/lineage"
put 755 "$BUILT/lineage-mcp" "$libexecdir/lineage-mcp"
put 755 "$BUILT/lineage-export" "$libexecdir/lineage-export"
put 755 "$BUILT/lineage-link" "$libexecdir/lineage-link"
for page in bin/man/*; do
	put 644 "$page" "$mandir/man${page##*.}/${page##*/}"
done
put 644 bin/completion/lineage.bash "$bashdir/lineage"
put 644 bin/completion/lineage.zsh "$zshdir/_lineage"
put 644 bin/completion/lineage.fish "$fishdir/lineage.fish"
policy=$(mktemp) filled=$(mktemp)
trap 'rm -f "$policy" "$filled"' EXIT
sed "s|\$schema=.*|\$schema=$docdir/policy.schema.json|" packaging/policy.yaml >"$policy"
put 644 "$policy" "$docdir/policy.yaml"
put 644 docs/policy.schema.json "$docdir/policy.schema.json"
put 644 packaging/alerts.yml "$docdir/alerts.yml"
put 644 packaging/dashboard.json "$docdir/dashboard.json"
put 644 packaging/agents.yaml "$docdir/agents.yaml"
put 644 packaging/build-daemons.yaml "$docdir/build-daemons.yaml"
put 644 LICENSE "$docdir/LICENSE"
put 644 bin/NOTICES "$docdir/NOTICES"
put 644 packaging/sysusers.d/lineage.conf "$sysusersdir/lineage.conf"
put 644 packaging/systemd/lineage.preset "$presetdir/90-lineage.preset"
put 644 packaging/systemd/lineage.socket "$unitdir/lineage.socket"
for file in systemd/lineage.service systemd/lineage-export.service systemd/lineage-link.service apparmor/lineage-daemon; do
	sed "s|@BINDIR@|$bindir|g" "packaging/$file.in" >"$filled"
	case $file in
	systemd/*) put 644 "$filled" "$unitdir/${file##*/}" ;;
	apparmor/*) put 644 "$filled" "$apparmordir/${file##*/}" ;;
	esac
done
# The policy belongs to the host: the directory is made, the file never.
install -d -m 755 "$DESTDIR$confdir"

if live && [ -e /sys/kernel/security/apparmor ] && command -v apparmor_parser >/dev/null; then
	apparmor_parser -r "$apparmordir/lineage-daemon"
fi
if ! live; then
	say "installed into $DESTDIR; nothing was started"
elif managed; then
	systemd-sysusers "$sysusersdir/lineage.conf"
	systemctl daemon-reload
	if systemctl is-active --quiet lineage.service; then
		say "installed; the old daemon is still running. Its sessions continue when you run: systemctl restart lineage"
	else
		say "installed; start it with: systemctl enable --now lineage"
	fi
else
	say "installed; systemd does not run here. To let people read all sessions: groupadd --system lineage"
	say "\"lineage run\" starts a daemon when it needs one; for one all the time have your init run, as root: $bindir/lineage daemon"
fi
[ -e "$DESTDIR$confdir/policy.yaml" ] || say "there is no $confdir/policy.yaml, and none is needed; the example is $docdir/policy.yaml"
