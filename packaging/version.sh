#!/bin/bash
# version.sh: prints the version of this tree. That is the file VERSION, if HEAD
# has its tag or this is no checkout. Before that it is a pre-release, which
# counts commits: package managers replace it by the release and by later ones.
set -euo pipefail
cd "$(dirname "$0")/.."
release=$(<VERSION)
if [ -e .git ] && ! git tag --points-at HEAD 2>/dev/null | grep -qx "v$release"; then
	release+=-dev.$(git rev-list --count HEAD 2>/dev/null || echo 0)
fi
echo "$release"
