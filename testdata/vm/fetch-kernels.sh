#!/bin/bash
# fetch-kernels.sh DIR SERIES…: Debian's newest kernel of each series, as
# DIR/RELEASE/vmlinuz, with its types as DIR/RELEASE/btf and a link DIR/SERIES to it:
# the cloud flavour of 6.18, the oldest that Debian serves of 6.18-oldest, the
# real-time one of 6.18-rt. Nothing is installed. UPDATE=1 fetches again what is there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# Which suite has which series. A series that is not listed is not in Debian.
suite_of() {
	case ${1%-*} in
	5.10) echo bullseye-security ;;
	6.1) echo bookworm-security ;;
	6.12) echo trixie-security ;;
	6.16 | 6.17 | 6.18 | 6.19 | 7 | 7.*) echo trixie-backports ;;
	*)
		echo "fetch-kernels: no suite of Debian has Linux $1" >&2
		return 1
		;;
	esac
}

fail() {
	echo "fetch-kernels: $*" >&2
	exit 1
}

[ $# -ge 2 ] || fail 'usage: fetch-kernels.sh DIR SERIES…'
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift

wanted=()
for series; do
	suite_of "$series" >/dev/null
	[ -z "${UPDATE:-}" ] && [ -s "$dir/$series/btf" ] || wanted+=("$series")
done
[ ${#wanted[@]} -gt 0 ] || exit 0

# shellcheck source=testdata/vm/apt.sh
. "$here/apt.sh"
suites=()
for series in "${wanted[@]}"; do suites+=("$(suite_of "$series")"); done
private_apt "$dir/.apt" "${suites[@]}" || fail "cannot read the package lists of ${suites[*]}; is the Debian mirror reachable?"

# release_of prints the newest release of a series that the suite has, or the oldest. Those of
# 6.1 that were made for Debian 11 are left out.
release_of() {
	local flavour=cloud last='tail -n 1'
	case $1 in *-rt) flavour=rt ;; *-oldest) last='head -n 1' ;; esac
	apt-cache --names-only search "^linux-image-${1%-*}\.[0-9.]+[-+].*$flavour-amd64\$" |
		sed -n "/deb11/d; s/^linux-image-\(.*-$flavour-amd64\) .*/\1/p" | sort -V | $last
}

# keep_btf writes the types of DIR/RELEASE/vmlinuz beside it. Its header says where the packed vmlinux is.
keep_btf() {
	local image=$1/vmlinuz at unpack
	at=$((($(od -An -tu1 -j 0x1f1 -N 1 "$image") + 1) * 512 + $(od -An -tu4 -j 0x248 -N 4 "$image") + 1))
	for unpack in zstd lz4; do
		[ -s "$1/vmlinux" ] || tail -c "+$at" "$image" | $unpack -dc >"$1/vmlinux" 2>/dev/null || true # more follows
	done
	objcopy --dump-section ".BTF=$1/btf" "$1/vmlinux"
	rm "$1/vmlinux"
}

# unpack puts the kernel of a release into DIR/RELEASE. Since 7.0 it is not in
# the image's package but in one of its own.
unpack() {
	local release=$1 package=linux-image-$1 tmp
	if apt-cache show "linux-binary-$release" >/dev/null 2>&1; then
		package=linux-binary-$release
	fi
	tmp=$(mktemp -d "$dir/.apt/unpack-XXXXXX")
	(cd "$tmp" && apt-get -qq download "$package") || fail "cannot download $package"
	dpkg-deb --fsys-tarfile "$tmp/$package"_*.deb |
		tar -x -C "$tmp" --no-same-owner --wildcards './boot/vmlinuz-*' './usr/lib/modules/*/vmlinuz' 2>/dev/null || true
	mkdir -p "$dir/$release"
	find "$tmp" -type f -name 'vmlinuz*' -exec mv {} "$dir/$release/vmlinuz" \;
	rm -rf "$tmp"
	[ -s "$dir/$release/vmlinuz" ] || fail "no vmlinuz in $package"
}

for series in "${wanted[@]}"; do
	release=$(release_of "$series")
	[ -n "$release" ] || fail "$(suite_of "$series") has no kernel of Linux $series"
	[ -s "$dir/$release/vmlinuz" ] || unpack "$release"
	[ -s "$dir/$release/btf" ] || keep_btf "$dir/$release"
	ln -sfn "$release" "$dir/$series"
	echo "Linux $series: $release"
done
