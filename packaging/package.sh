#!/bin/bash
# package.sh deb|rpm ARCH DIR: writes a package into DIR, of what `make all` made
# and the programs in bin/ARCH, or in the folder BUILT. Its files are those that install.sh installs under /usr;
# what is added or renamed is what the packagers of Debian and Fedora expect.
# The same tree at the same commit gives the same bytes.
set -euo pipefail
kind=$1 arch=$2 dir=$(realpath "$3")
cd "$(dirname "$0")/.."
: "${SOURCE_DATE_EPOCH:?}" "${VERSION:?}"
root=$PWD/bin/package/$kind-$arch
rm -rf "$root"
mkdir -p "$root"

[ "$kind" != deb ] || export ZSHDIR=vendor-completions
PREFIX=/usr DESTDIR=$root BUILT=${BUILT:-bin/$arch} packaging/install.sh >/dev/null
doc=$root/usr/share/doc/lineage

copyright() {
	cat <<-END
		Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
		Upstream-Name: lineage
		Source: https://github.com/lineage-ebpf/lineage

		Files: *
		Copyright: 2026 the lineage authors
		License: Apache-2.0
		 The text is in /usr/share/common-licenses/Apache-2.0. The modules that are
		 linked into the program are under licences of their own, whose texts are in
		 /usr/share/doc/lineage/NOTICES.gz.

		Files: bpf/*
		Copyright: 2026 the lineage authors
		License: GPL-2.0-only or BSD-2-Clause
		 The text of the first is in /usr/share/common-licenses/GPL-2. The second:
		 .
	END
	sed -n '/^Copyright (c)/,$p' bpf/LICENSE | sed 's/^$/./; s/^/ /'
}

changelog() {
	printf 'lineage (%s) unstable; urgency=medium\n\n  * See https://github.com/lineage-ebpf/lineage/blob/main/CHANGELOG.md\n\n' "${VERSION/-/\~}"
	printf ' -- %s  %s\n' "$maintainer" "$(date -uRd "@$SOURCE_DATE_EPOCH")"
}

license='license: Apache-2.0 AND (GPL-2.0-only OR BSD-2-Clause)'
maintainer='The lineage authors <lineage@users.noreply.github.com>'
if [ "$kind" = deb ]; then
	rm "$doc/LICENSE"
	license= # Debian has it in the file copyright
	copyright >"$doc/copyright"
	changelog | gzip -9n >"$doc/changelog.gz"
	gzip -9n "$doc/NOTICES"
	find "$root/usr/share/man" -type f -exec gzip -9n {} +
	mkdir -p "$root/usr/share/lintian/overrides"
	install -m 644 packaging/lintian-overrides "$root/usr/share/lintian/overrides/lineage"
	chmod 644 "$doc"/*
fi

# prerm stops and unloads as uninstall.sh does.
{
	# shellcheck disable=SC2016 # for the script
	printf '#!/bin/sh\nset -eu\nbinary=/usr/bin/lineage force=${LINEAGE_FORCE:-} force_with=LINEAGE_FORCE=1\nunset LINEAGE_SOCKET\n'
	cat packaging/unload.sh packaging/scripts/prerm
} >"$root.prerm"
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

mtime=$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)
config() {
	cat <<-END
		name: lineage
		arch: $arch
		platform: linux
		version: ${VERSION%%-*}
		prerelease: "$([[ $VERSION != *-* ]] || echo "${VERSION#*-}")"
		section: admin
		priority: optional
		maintainer: $maintainer
		vendor: the lineage authors
		homepage: https://github.com/lineage-ebpf/lineage
		${license}
		mtime: $mtime
		description: |-
		  eBPF process lineage tracer for hosts that run coding agents
		  lineage tracks every process that a command starts, through double forks,
		  setsid, cleared environments and dead parents, using eBPF in the kernel. It
		  shows which command a process, a port or a file belongs to, and it can end all
		  of them. The daemon is installed disabled.
		rpm:
		  buildhost: localhost
		  summary: eBPF process lineage tracer for hosts that run coding agents
		scripts:
		  postinstall: packaging/scripts/postinst
		  preremove: $root.prerm
		  postremove: packaging/scripts/postrm
		contents:
		- {dst: /etc/lineage, type: dir, file_info: {mode: 0755}}
	END
	find "$root" -type f -printf '%P %m\n' | LC_ALL=C sort | while read -r name mode; do
		type=
		case $name in
		etc/*) type=', type: config|noreplace' ;;
		usr/share/licenses/*) type=', type: license' ;;
		esac
		echo "- {src: $root/$name, dst: /$name$type, file_info: {mode: 0$mode, mtime: $mtime}}"
	done
}
config >"$root.yaml"
.cache/bin/"${NFPM:?}" package --config "$root.yaml" --packager "$kind" --target "$dir/"
