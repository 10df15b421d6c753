#!/bin/bash
# fetch-promtool.sh DIR: promtool of this system's Debian package, into DIR; nothing
# is installed.
set -euo pipefail
dir=$1
[ ! -x "$dir/promtool" ] || exit 0
mkdir -p "$dir"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq prometheus >/dev/null 2>&1 || { echo "fetch-promtool: cannot download the package prometheus with apt-get" >&2; exit 1; }
dpkg-deb -x prometheus_*.deb .
cd - >/dev/null
mv "$work/usr/bin/promtool" "$dir/promtool"
