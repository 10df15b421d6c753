#!/bin/bash
# fetch-arm64.sh DIR SERIES: for arm64 guests: qemu-system-aarch64, Debian's newest cloud kernel of
# the series as DIR/SERIES-arm64/vmlinuz, and a static busybox. Nothing is installed, and what is there
# not fetched again. DIR has the QEMU that fetch-qemu.sh found.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 2 ] || { echo 'usage: fetch-arm64.sh DIR SERIES' >&2; exit 1; }
mkdir -p "$1"
dir=$(cd "$1" && pwd) series=$2

# shellcheck source=testdata/vm/apt.sh
. "$here/apt.sh"
# shellcheck source=/dev/null
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
tmp=$(mktemp -d "$dir/unpack-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

program=$dir/qemu-system-aarch64
if [ ! -x "$program" ]; then
	(
		private_apt "$dir/.apt-host" "$codename-backports"
		apt-get -qq download qemu-system-arm qemu-system-common qemu-system-data
	)
	for deb in ./qemu-*.deb; do dpkg-deb -x "$deb" "$dir"; done
	printf '#!/bin/sh\nexec %q -L %q "$@"\n' "$dir/usr/bin/qemu-system-aarch64" "$dir/usr/share/qemu" >"$program.new"
	chmod +x "$program.new"
	"$program.new" --version >/dev/null
	mv "$program.new" "$program"
fi

[ ! -s "$dir/busybox" ] || [ ! -s "$dir/$series-arm64/vmlinuz" ] || exit 0
private_apt "$dir/.apt" trixie-backports bookworm
printf 'APT::Architecture "arm64";\nAPT::Architectures "arm64";\n' >>"$APT_CONFIG"
apt-get -qq update
image=$(apt-cache --names-only search "^linux-image-$series\.[0-9.]+[-+].*cloud-arm64\$" | cut -d' ' -f1 | sort -V | tail -n 1)
[ -n "$image" ] || { echo "fetch-arm64: no Linux $series" >&2; exit 1; }
apt-get -qq download busybox-static "$image"
dpkg-deb --fsys-tarfile busybox-static_*.deb | tar -x --no-same-owner ./bin/busybox
dpkg-deb --fsys-tarfile "$image"_*.deb | tar -x --no-same-owner --wildcards './boot/vmlinuz-*'
release=${image#linux-image-}
mkdir -p "$dir/$release"
mv boot/vmlinuz-* "$dir/$release/vmlinuz"
ln -sfn "$release" "$dir/$series-arm64"
mv bin/busybox "$dir/busybox"
echo "Linux $series on arm64: $release"
