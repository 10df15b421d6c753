#!/bin/bash
# fresh.sh [COMMAND…]: builds a minimal Debian 12 with only Go, git, make and sudo, clones HEAD into
# its /root and runs each COMMAND there; without one, each line of README.md that begins with sudo make.
# PATH has no Go. Fails if one of them fails, or if a test was skipped for want of a package.
# Needs root, mmdebstrap, 15 GB of disk.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -eq 0 ]; then
	mapfile -t lines < <(grep '^sudo make ' README.md)
	set -- "${lines[@]}"
	[ $# -gt 0 ] || {
		echo 'fresh: README.md has no line that begins with: sudo make' >&2
		exit 1
	}
fi

root=$(mktemp -d "${TMPDIR:-/var/tmp}/lngtest-fresh-XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT
sources=/etc/apt/sources.list.d/debian.sources
[ -e $sources ] || sources=/etc/apt/sources.list
# The hook's shell expands $1, the folder. Certificates of this host's own reach its package servers.
# shellcheck disable=SC2016
mmdebstrap --quiet --variant=minbase --include=ca-certificates,git,make,sudo \
	--setup-hook='mkdir -p "$1/usr/local/share"; cp -r /usr/local/share/ca-certificates "$1/usr/local/share"' \
	bookworm "$root" $sources
cp -r "$(go env GOROOT)" "$root/usr/local/go"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
git clone --quiet --no-hardlinks . "$root/root/lineage"

# A chroot may not make user namespaces, so the folder becomes the root of a mount namespace. The PID
# namespace stays the host's: the daemon refuses to run in another one.
enter() {
	# The variables are those of the inner shell.
	# shellcheck disable=SC2016
	unshare --mount --propagation private bash -euc '
		mount --bind "$1" "$1"
		cd "$1"
		for dir in proc sys dev; do mount --rbind "/$dir" "$dir"; done
		mount -t bpf bpf sys/fs/bpf
		mount -t tmpfs -o mode=755 run run
		pivot_root . mnt
		umount -l /mnt
		cd /root/lineage
		exec env -i HOME=/root TERM=dumb LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			bash -c "$2"
	' fresh.sh "$root" "$1" </dev/null
}

for command in "$@"; do
	printf '\n=== %s\n' "$command"
	began=$SECONDS
	enter "$command"
	printf 'fresh: %4d s  %s\n' $((SECONDS - began)) "$command"
done
if grep -A1 -- '--- SKIP: ' "$root/root/lineage/bin/test.log" 2>/dev/null | grep -E '; run make (deps|test)'; then
	echo 'fresh: these tests were skipped for want of a package' >&2
	exit 1
fi
