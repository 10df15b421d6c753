#!/bin/bash
# fetch-chdb.sh DIR: ClickHouse's engine from npm, below DIR/chdb (550 MB). Nothing is installed outside DIR. If npm cannot get it,
# its test is skipped.
set -euo pipefail
package=chdb@3.4.0
to=$1/chdb
[ ! -e "$to/installed" ] || exit 0
rm -rf "$to"
mkdir -p "$to"
if npm install --prefix "$to" --cache "$1/npm" --no-audit --no-fund --loglevel error "$package" >&2; then
	touch "$to/installed"
else
	rm -rf "$to"
	printf '\n*** NOT TESTED: npm could not install %s\n\n' "$package" >&2
fi
