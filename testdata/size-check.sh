#!/bin/bash
# size-check.sh: compares size.tsv with that of the merge base of main, else of the last tag, else of the
# parent. Fails if a sum rose, or if the table allows more lines than there are. Shows the difference.
set -euo pipefail
cd "$(dirname "$0")/.."

base=
for ref in origin/main main; do
	base=$(git merge-base HEAD $ref 2>/dev/null) && [ "$base" != "$(git rev-parse HEAD)" ] && break
	base=
done
[ -n "$base" ] || base=$(git describe --tags --abbrev=0 2>/dev/null || git rev-parse --verify --quiet HEAD^ || true)
mkdir -p bin
if [ -z "$base" ] || ! git show "$base:testdata/size.tsv" >bin/size.tsv 2>/dev/null; then
	echo "size-check: no earlier table: compared with itself"
	cp testdata/size.tsv bin/size.tsv
fi
git diff --no-index --unified=0 bin/size.tsv testdata/size.tsv || true
go test ./internal/arch -count=1 -run '^TestSize' -args -size.base="$PWD/bin/size.tsv"
