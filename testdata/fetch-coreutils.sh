#!/bin/bash
# fetch-coreutils.sh DIR: puts coreutils' own tests of timeout(1) into DIR, from Debian's source
# package. apt verifies the package; the host's own lists stay as they are.
set -euo pipefail
dir=$1
[ ! -e "$dir/tests/misc/timeout.sh" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$dir"
chmod 755 "$work"
sed -n 's/^deb /deb-src /p' /etc/apt/sources.list 2>/dev/null >"$work/sources.list" || true
[ -s "$work/sources.list" ] || echo 'deb-src http://deb.debian.org/debian bookworm main' >"$work/sources.list"
apt=(apt-get -qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists"
	-o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
cd "$work"
{ "${apt[@]}" update && "${apt[@]}" source --download-only coreutils=9.1-1; } >log 2>&1 || {
	echo "fetch-coreutils.sh: cannot fetch Debian's source package of coreutils 9.1: $(tail -n 1 log)" >&2
	exit 1
}
tar -xf coreutils_9.1.orig.tar.xz --strip-components 1 -C "$dir" --wildcards '*/tests/misc/timeout*' '*/tests/init.sh' '*/init.cfg' \
	'*/tests/envvar-check' '*/tests/lang-default' '*/tests/Coreutils.pm' '*/tests/CuSkip.pm' '*/tests/CuTmpdir.pm'
