#!/bin/bash
# tarball.sh ARCH DIR: writes lineage-VERSION-linux-ARCH.tar.gz into DIR: what
# `make all` made, with install.sh and uninstall.sh. The same tree at the same
# commit gives the same bytes.
set -euo pipefail
arch=$1 dir=$(realpath "$2")
cd "$(dirname "$0")/.."
: "${SOURCE_DATE_EPOCH:?}" "${VERSION:?}"
name=lineage-$VERSION-linux-$arch
root=bin/package/$name
rm -rf "$root"
mkdir -p "$root/bin" "$root/docs" "$root/packaging"
cp "bin/$arch"/lineage{,-mcp,-export,-link} "$root/bin/"
cp -R bin/man bin/completion bin/NOTICES "$root/bin/"
cp -R packaging/{layout,install,uninstall,unload}.sh packaging/{systemd,sysusers.d,apparmor} packaging/*.y*ml packaging/dashboard.json "$root/packaging/"
cp docs/policy.schema.json "$root/docs/"
cp LICENSE CHANGELOG.md docs/INSTALL.md "$root/"
chmod -R u=rwX,go=rX "$root"
tar -C bin/package --format=ustar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$name" |
	gzip -9n >"$dir/$name.tar.gz"
