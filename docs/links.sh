#!/bin/bash
# links.sh: fails if a relative link in a document leads nowhere.
set -euo pipefail
cd "$(dirname "$0")/.."

broken=0
while IFS=: read -r file link; do
	link=${link#](}
	link=${link%%[#)]*}
	if [ -n "$link" ] && [ ! -e "$(dirname "$file")/$link" ]; then
		echo "$file: no $link" >&2
		broken=1
	fi
done < <(git ls-files -z '*.md' | xargs -0 grep -oHE '\]\([^):]+\)')
exit "$broken"
