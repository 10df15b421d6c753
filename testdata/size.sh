#!/bin/bash
# size.sh [COMMIT]: how much is written by hand: lines of code by row of size.tsv, words of the
# users' pages, and flags of the commands.
set -euo pipefail
cd "$(dirname "$0")/.."

tree=$PWD
if [ $# -gt 0 ]; then
	tree=$(mktemp -d)
	trap 'rm -rf "$tree"' EXIT
	git archive "$1" | tar -x -C "$tree"
fi
(cd internal/arch && go test -count=1 -run '^TestSize$' -args -size.tree="$tree" -size.print) | grep -vE '^(PASS|ok )'

cd "$tree"
# What stands between the marks, and the pages that say so in their first lines, are written by make.
find . -name '*.md' ! -regex './\(\.\|bin/\|docs/results\|.*\(DESIGN\|CODEBASE\|CONTRIBUTING\|CHANGELOG\)\).*' | sort | while read -r page; do
	head -n 5 "$page" | grep -qE '^(<!-- )?Written (by|from) ' || sed '/<!-- begin /,/<!-- end /d' "$page"
done | wc -w | xargs printf '%7d words for users\n'
grep -E '^(  -., |      )--' docs/COMMANDS.md | grep -vc -- '--help ' | xargs printf '%7d flags\n'
