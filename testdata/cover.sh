#!/bin/bash
# cover.sh [PACKAGE…]: the part of each package's statements that its own tests reach, default of all
# packages. It fails if a package of more than 300 lines has less than LEAST (60) percent, but for
# those that golden files, its callers' tests, or tests in guests reach.
set -euo pipefail
cd "$(dirname "$0")/.."

module=$(go list -m)
elsewhere='^(cmd/lineage/(cli|ending|query|service|text)|daemon/cgroup|tracer/(procfs|takeover)|tui/(panes|ink))$'
failed=0
while read -r package dir files; do
	path=${package#"$module/"}
	case $path in internal/* | *test) continue ;; esac
	# shellcheck disable=SC2086
	lines=$(cd "$dir" && { grep -L "^// Code generated " $files || true; } | xargs -r cat | wc -l)
	[ "$lines" -gt 300 ] || continue
	verdict=
	said=$(go test -count=1 -cover "$package") || {
		verdict='  its tests fail'
		failed=1
	}
	part=$(grep -oP 'coverage: \K[0-9]+' <<<"$said" || echo 0)
	if [ "$part" -lt "${LEAST:-60}" ] && ! [[ $path =~ $elsewhere ]]; then
		verdict='  too few'
		failed=1
	fi
	printf '%3d%% of %5d lines  %s%s\n' "$part" "$lines" "$path" "$verdict"
done < <(go list -f '{{if .GoFiles}}{{.ImportPath}} {{.Dir}} {{join .GoFiles " "}}{{end}}' "${@:-$module/...}")
exit $failed
