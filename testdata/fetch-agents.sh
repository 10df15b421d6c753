#!/bin/bash
# fetch-agents.sh DIR NAME…: coding agents from npm, each at its version, below DIR.
# Nothing is installed outside DIR. An agent that npm cannot get is reported, and its
# tests are skipped.
set -euo pipefail
dir=$1
shift
declare -A packages=(
	[claude-code]=@anthropic-ai/claude-code@2.1.332
	[codex]=@openai/codex@0.171.0
	[gemini-cli]=@google/gemini-cli@0.61.0
	[opencode]=opencode-ai@1.18.33
)
missing=()
for name; do
	package=${packages[$name]:?"no agent $name"}
	to=$dir/$name-${package##*@}
	[ ! -e "$to/installed" ] || continue
	rm -rf "$to"
	mkdir -p "$to"
	if npm install --prefix "$to" --cache "$dir/npm" --no-audit --no-fund --loglevel error "$package" >&2; then
		touch "$to/installed"
	else
		rm -rf "$to"
		missing+=("$package")
	fi
done
[ ${#missing[@]} -eq 0 ] || printf '\n*** NOT TESTED: npm could not install %s\n\n' "${missing[*]}" >&2
