# layout.sh: where everything goes; read by install.sh and uninstall.sh.
# PREFIX and DESTDIR come from the environment. Policy, history and audit log are
# where the daemon looks, not under PREFIX.
# shellcheck shell=bash disable=SC2034
PREFIX=${PREFIX:-/usr/local}
DESTDIR=${DESTDIR:-}

case $PREFIX in # it stands in the unit file
*[!A-Za-z0-9/._+-]* | [!/]*) echo "PREFIX=$PREFIX: want an absolute path of letters, digits and ._+-" >&2; exit 2 ;;
esac
case $DESTDIR in
'' | /*) ;;
*) echo "DESTDIR=$DESTDIR: want an absolute path" >&2; exit 2 ;;
esac

bindir=$PREFIX/bin
libexecdir=$PREFIX/libexec/lineage
unitdir=$PREFIX/lib/systemd/system # systemd looks here for /usr and /usr/local
presetdir=$PREFIX/lib/systemd/system-preset
sysusersdir=$PREFIX/lib/sysusers.d
mandir=$PREFIX/share/man
bashdir=$PREFIX/share/bash-completion/completions
zshdir=$PREFIX/share/zsh/${ZSHDIR:-site-functions}
fishdir=$PREFIX/share/fish/vendor_completions.d
docdir=$PREFIX/share/doc/lineage
confdir=/etc/lineage
apparmordir=/etc/apparmor.d
statedir=/var/lib/lineage
logdir=/var/log/lineage

# live tells that this is about the running system, not about a tree of files.
live() { [ -z "$DESTDIR" ]; }

# managed tells that systemd runs it.
managed() { live && [ -d /run/systemd/system ] && command -v systemctl >/dev/null; }

say() { printf '%s\n' "$*"; }
