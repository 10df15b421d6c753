#!/bin/bash
# size.sh [COMMIT]: how much is written by hand: lines of Go of the product, the tools (internal/), the
# fakes and the tests, lines of C, and words of Markdown outside what targets of make write.
set -euo pipefail
cd "$(dirname "$0")/.."
commit=${1:-HEAD}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
git archive "$commit" | tar -x -C "$dir"
cd "$dir"

count() { # NAME, files on stdin
	printf '%-10s %7d\n' "$1" "$(xargs -r cat | wc -l)"
}
find . -name '*.go' -print0 | xargs -0 grep -LE '^// Code generated .* DO NOT EDIT' | sed 's|^\./||' | sort >go
test='_test\.go$'
fake='^(api|cmd|daemon|enforcer|tracer|tui|lineage)/.*test/[^/]*\.go$'
grep -vE "$test|$fake|^internal/" go | count product
grep -vE "$test" go | grep '^internal/' | count tools
grep -vE "$test" go | grep -E "$fake" | count fakes
grep -E "$test" go | count tests
find . -name '*.[ch]' ! -name vmlinux.h | grep '^./bpf/' | count 'C (bpf/)'

# What stands between the marks, and the pages that say so in their first lines, are written by make.
find . -name '*.md' ! -path './.github/*' | sort | while read -r page; do
	head -n 5 "$page" | grep -qE '^(<!-- )?Written (by|from) ' || sed '/<!-- begin /,/<!-- end /d' "$page"
done | wc -w | xargs printf '%-10s %7d\n' words
