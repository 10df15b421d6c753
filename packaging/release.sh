#!/bin/bash
# release.sh check: refuses what is not the commit of a release, and writes the notes of the
# release to bin/release-notes.md. release.sh sign: signs bin/dist/SHA256SUMS with the ssh key in
# the file RELEASE_KEY, if it is set. `make release` calls both.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(<VERSION)

refuse() {
	echo "release: $*" >&2
	exit 1
}

check() {
	local changes tags page
	changes=$(git status --porcelain)
	[ -z "$changes" ] || refuse "the tree has changes: ${changes%%$'\n'*}"
	tags=$(git tag --points-at HEAD --list 'v*')
	[ -n "$tags" ] || refuse "HEAD has no tag; VERSION wants v$version"
	grep -qxF "v$version" <<<"$tags" || refuse "HEAD is tagged ${tags//$'\n'/, }, but VERSION is $version"
	grep -qE "^## ${version//./\\.} \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$" CHANGELOG.md || refuse "CHANGELOG.md has no heading \"## $version (YYYY-MM-DD)\""
	for page in README.md docs/INSTALL.md; do
		! grep -q 'not published yet' $page || refuse "$page says \"not published yet\""
	done
	mkdir -p bin
	awk -v heading="## $version (" '/^## / { on = index($0, heading) == 1; next } on' CHANGELOG.md >bin/release-notes.md
}

sign() {
	local sums=bin/dist/SHA256SUMS
	[ -n "${RELEASE_KEY:-}" ] || return 0
	ssh-keygen -q -Y sign -n file -f "$RELEASE_KEY" $sums
	ssh-keygen -q -Y verify -n file -I lineage -f packaging/allowed_signers -s $sums.sig <$sums >/dev/null ||
		refuse "packaging/allowed_signers does not have the key of $RELEASE_KEY"
}

"$1"
