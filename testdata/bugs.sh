#!/bin/bash
# bugs.sh [TEST]: reproduces the bugs of bugs.tsv, or TEST's: on the commit before the fix its tests must fail, or
# the model must break without it. Without TEST it writes docs/results/bugs.md. Needs all history, root, `make programs`.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p bin/bugs
dir=$(mktemp -d)
trap 'git worktree remove --force "$dir/old" 2>/dev/null || true; rm -rf "$dir"' EXIT

# introduced FIX: the commit that wrote most of the lines that FIX took away, tests apart.
introduced() {
	git diff -U0 --no-prefix "$1^" "$1" -- '*.go' '*.h' '*.c' ':!*_test.go' ':!*_bpfel.go' |
		awk '/^--- /{ file = $2 } /^@@ /{ n = split(substr($2, 2), at, ","); if (n < 2 || at[2] > 0) print file, at[1], n < 2 ? 1 : at[2] }' |
		while read -r file from count; do
			git blame -s --abbrev=7 -L "$from,+$count" "$1^" -- "$file" | cut -c1-8
		done | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }'
}

# reproduce FIX PACKAGE TEST: how TEST ends on the commit before FIX.
reproduce() {
	local log=bin/bugs/$1.${3//\//_}.log file code=0
	if [ "$2" = internal/protocol ]; then
		go test -count=1 -v -run "^$3\$" "./$2" >"$log" 2>&1 && echo 'the model breaks' || echo 'no result'
		return
	fi
	git worktree remove --force "$dir/old" 2>/dev/null || true
	git worktree add -q --detach "$dir/old" "$1^"
	git ls-tree -r --name-only "$1" -- "$2" | grep -E "^$2/([^/]*_test\.go|testdata/.*)$" | while read -r file; do
		mkdir -p "$dir/old/${file%/*}"
		git show "$1:$file" >"$dir/old/$file"
	done
	mkdir -p "$dir/old/bin"
	cp -r bin/testdata "$dir/old/bin/"
	(cd "$dir/old" && timeout 400 testdata/bpffs.sh go test -count=1 -timeout 300s -run "^$3\$" "./$2") >"$log" 2>&1 || code=$?
	if [ $code = 0 ]; then
		echo passes
	elif [ $code = 124 ]; then
		echo 'does not end'
	elif grep -q 'build failed' "$log"; then
		echo 'does not compile'
	elif grep -q 'load the programs:' "$log" && ! grep '_test\.go:' "$log" | grep -v figure: | grep -qv 'load the programs:'; then
		echo 'does not load here'
	elif grep -qE '^ *--- FAIL|^panic:' "$log"; then
		echo fails
	else
		echo 'no result'
	fi
}

# rows prints a row for each bug.
rows() {
	local claim what fix package test found
	while IFS=$'\t' read -r claim what fix package test found; do
		# shellcheck disable=SC2016
		printf '| %s | %s | %s | %s | %s | `%s` | %s |\n' "$claim" "$what" "$(introduced "$fix")" "$fix" "$found" "$test" \
			"$(reproduce "$fix" "$package" "$test" </dev/null)"
	done <testdata/bugs.tsv
}

if [ $# -gt 0 ]; then
	IFS=$'\t' read -r _ _ fix package test _ < <(awk -F'\t' -v test="$1" '$5 == test' testdata/bugs.tsv) || {
		echo "bugs.sh: no test $1 in testdata/bugs.tsv" >&2
		exit 2
	}
	reproduce "$fix" "$package" "$test"
	cat "bin/bugs/$fix.${test//\//_}.log"
	exit
fi
{
	printf '# Bugs\n\nWritten by make bugs from testdata/bugs.tsv, %s, Linux %s.\n\n' "$(date -u +%F)" "$(uname -r)"
	# shellcheck disable=SC2016
	printf '%s %s %s %s\n\n' '`testdata/bugs.sh TEST` reproduces one.' \
		'*On the commit before*: how the test of the fix ends there. Where that does not compile, the fix changed what its test calls; where it does not load, this kernel refuses a program of then; where it passes, the bug was one of chance.' \
		'*The model breaks*: without what the fix brought.' \
		'*By*: the commit that wrote most of the lines that the fix took away.'
	printf '| claim | what was wrong | by | mended by | found by | test | on the commit before |\n'
	printf '| --- | --- | --- | --- | --- | --- | --- |\n'
	rows
} >bin/bugs.md
mv bin/bugs.md docs/results/bugs.md
