#!/bin/bash
# commands.sh: writes COMMANDS.md, the commands' own help, to stdout.
set -euo pipefail
cd "$(dirname "$0")/.."
export NO_COLOR=1 LC_ALL=C COLUMNS=100

# shellcheck disable=SC2016 # the backticks are Markdown
section() { printf '\n## %s\n\n```\n%s\n```\n' "$1" "$2"; }

overview=$(bin/lineage --help)
cat <<'EOF'
# Commands

<!-- Written by docs/commands.sh from the commands' own help; `make docs` writes it again. -->
EOF
section lineage "$overview"

commands() { awk '/^(Start here|Run|Inspect|End|Agents|Host|Many hosts|Available Commands):/ { on = 1; next } /^$/ { on = 0 } on { print $1 }'; }
topics() { awk '/^Topics:/ { on = 1; next } /^$/ { on = 0 } on { print $2 }'; }

# What programs call is not in the overview.
{ commands <<<"$overview"; printf '%s\n' completion hook stdio; } | while read -r name; do
	[ "$name" != help ] || continue
	text=$(bin/lineage "$name" --help)
	section "lineage $name" "$text"
	[ "$name" != completion ] || continue # one shell is like the other
	commands <<<"$text" | while read -r sub; do
		section "lineage $name $sub" "$(bin/lineage "$name" "$sub" --help)"
	done
done

topics <<<"$overview" | while read -r name; do
	section "Topic: $name" "$(bin/lineage help "$name")"
done
