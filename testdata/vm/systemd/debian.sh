#!/bin/bash
# debian.sh DIR SUITE: makes DIR/SUITE, a Debian with systemd, dpkg and apt that
# boots as an initramfs. One that is there already is not made again, unless
# UPDATE=1.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
suite=$2
mkdir -p "$1"
dir=$(cd "$1" && pwd)
stamp=$dir/$suite.made
exec 9>"$dir/.lock"
flock 9 # it may be made already, by another test
[ -n "${UPDATE:-}" ] || [ ! "$stamp" -nt "$0" ] || exit 0

# shellcheck source=testdata/vm/apt.sh
. "$here/../apt.sh"
uri=$(mirror debian) || {
	echo 'debian.sh: no Debian mirror in the sources of this system' >&2
	exit 1
}
rm -rf --one-file-system "${dir:?}/$suite" "$stamp"
# What it mounts, it mounts where nobody else sees it, and where it goes with it.
unshare --mount --propagation private mmdebstrap --quiet --variant=minbase --mode=root \
	--include=systemd,systemd-sysv,dbus,procps,apparmor \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
	--dpkgopt='path-include=/usr/share/doc/lineage/*' \
	"$suite" "$dir/$suite" "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main"
cd "$dir/$suite"
rm -rf var/cache/apt/* var/lib/apt/lists/*_* dev/*
ln -sfn lib/systemd/systemd init
echo 0123456789abcdef0123456789abcdef >etc/machine-id
echo lngtest >etc/hostname
for unit in getty.target serial-getty@ttyS0.service systemd-timesyncd.service systemd-networkd.service \
	systemd-resolved.service systemd-udev-hwdb-update.service systemd-udevd.service systemd-udev-trigger.service \
	systemd-pcrphase.service systemd-pcrphase-sysinit.service e2scrub_reap.service systemd-random-seed.service \
	systemd-update-utmp.service systemd-update-utmp-runlevel.service systemd-modules-load.service \
	dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount \
	sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount systemd-tmpfiles-clean.timer systemd-journal-flush.service \
	apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer; do
	ln -sfn /dev/null "etc/systemd/system/$unit"
done
touch "$stamp"
