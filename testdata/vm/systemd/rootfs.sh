#!/bin/bash
# rootfs.sh DIR: makes DIR/root, the files of a Debian with systemd that boots as
# an initramfs. Nothing is installed: the packages are unpacked. One that is
# there already is not made again, unless UPDATE=1.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
stamp=$dir/root.made
[ -n "${UPDATE:-}" ] || [ ! "$stamp" -nt "$0" ] || exit 0

# shellcheck source=testdata/vm/apt.sh
. "$here/../apt.sh"
suite=bookworm
private_apt "$dir/.apt" "$suite" "$suite-security" || {
	echo "rootfs: cannot read the package lists of $suite; is the Debian mirror reachable?" >&2
	exit 1
}
apt-get -qq -y --no-install-recommends --download-only install \
	systemd systemd-sysv dbus libpam-systemd bash dash coreutils procps util-linux grep sed mawk findutils passwd at cron >/dev/null

rm -rf "$dir/root" "$stamp"
mkdir -p "$dir/root"
cd "$dir/root"
mkdir -p usr/bin usr/sbin usr/lib usr/lib64 dev proc sys run tmp root var/lib var/log
for d in bin sbin lib lib64; do ln -s "usr/$d" "$d"; done
chmod 1777 tmp
chmod 700 root
# What only a package manager, a perl or a reader needs is left out: all of it
# stays in the guest's memory.
for deb in "$dir"/.apt/cache/archives/*.deb; do
	case ${deb##*/} in
	perl* | libperl* | libfile-* | libnumber-* | libtext-* | adduser* | debconf* | usrmerge* | dpkg_* | tar_* | libdb5* | libgdbm* | gcc-*) continue ;;
	esac
	dpkg-deb --fsys-tarfile "$deb" | tar -x --no-same-owner --keep-directory-symlink \
		--exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale' --exclude='./usr/share/info' \
		--exclude='./usr/share/lintian' --exclude='*/gconv' --exclude='./usr/share/bash-completion' --exclude='./usr/share/zsh' \
		--exclude='./lib/udev/hwdb.d' --exclude='./usr/lib/udev/hwdb.d' --exclude='./usr/share/polkit-1'
done
ln -s lib/systemd/systemd init

# What the packages' scripts would have made.
cat >etc/passwd <<'END'
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/nonexistent:/usr/sbin/nologin
messagebus:x:100:100::/nonexistent:/usr/sbin/nologin
tester:x:1000:1000::/tmp:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
END
cat >etc/group <<'END'
root:x:0:
daemon:x:1:
adm:x:4:
tty:x:5:
crontab:x:101:
utmp:x:43:
messagebus:x:100:
tester:x:1000:
nogroup:x:65534:
END
printf 'root:*:1::::::\n' >etc/shadow
chmod 600 etc/shadow
echo 0123456789abcdef0123456789abcdef >etc/machine-id
echo lngtest >etc/hostname
: >etc/fstab
# Both: what one does not say is asked of the other, and what that one includes
# only a package's script makes.
for service in systemd-user atd cron other; do
	printf '%s required pam_permit.so\n' auth account password session >"etc/pam.d/$service"
done
echo 'session optional pam_systemd.so' >>etc/pam.d/systemd-user # names the runtime directory
mkdir -p etc/systemd/system
for unit in getty.target serial-getty@ttyS0.service systemd-timesyncd.service systemd-networkd.service \
	systemd-resolved.service systemd-udev-hwdb-update.service systemd-udevd.service systemd-udev-trigger.service \
	systemd-pcrphase.service systemd-pcrphase-sysinit.service e2scrub_reap.service systemd-random-seed.service \
	systemd-update-utmp.service systemd-update-utmp-runlevel.service systemd-modules-load.service systemd-sysusers.service \
	dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount \
	sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount systemd-tmpfiles-clean.timer systemd-journal-flush.service; do
	ln -sfn /dev/null "etc/systemd/system/$unit"
done
rm -rf var/run # a link is what systemd wants there
ln -s /run var/run
touch "$stamp"
