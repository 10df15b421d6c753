#!/bin/bash
# fetch-qemu.sh DIR: makes DIR/qemu-system-x86_64, the QEMU to use: the system's
# own if it is new enough, else the one of Debian's backports, unpacked into DIR
# over the system's libraries.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd -P)
program=$dir/qemu-system-x86_64

# The emulation of cmpxchg16b before 8 corrupts the guest's flags.
enough=8

major() { "$1" --version 2>/dev/null | sed -n 's/^QEMU emulator version \([0-9]*\)\..*/\1/p'; }

[ ! -x "$program" ] || [ -z "$(major "$program")" ] || exit 0
have=$(major qemu-system-x86_64 || true)
if [ "${have:-0}" -ge $enough ]; then
	ln -sfn "$(command -v qemu-system-x86_64)" "$program"
	exit
fi

# shellcheck source=testdata/vm/apt.sh
. "$here/apt.sh"
# shellcheck source=/dev/null
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
tmp=$(mktemp -d "$dir/unpack-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
if (
	private_apt "$dir/.apt" "$codename-backports" &&
		cd "$tmp" && apt-get -qq download qemu-system-x86 qemu-system-common qemu-system-data
); then
	for deb in "$tmp"/*.deb; do dpkg-deb -x "$deb" "$dir"; done
	printf '#!/bin/sh\nexec %q -L %q -L /usr/share/seabios "$@"\n' \
		"$dir/usr/bin/qemu-system-x86_64" "$dir/usr/share/qemu" >"$tmp/program"
	chmod +x "$tmp/program"
	if [ -n "$(major "$tmp/program")" ]; then
		mv "$tmp/program" "$program"
		exit
	fi
fi
echo "fetch-qemu: no QEMU $enough or newer to be had from $codename-backports" >&2
exit 1
