#!/bin/bash
# liveness.sh: checks docs/model/liveness.pml with Spin, each row with what it must come to. A row that
# must fail shows that the property can.
set -euo pipefail
cd "$(dirname "$0")/.."
model=$PWD/docs/model/liveness.pml
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
cd "$dir"
wrong=0

# row RESULT CLAIM DEFINE…: RESULT is holds or fails; CLAIM - is the model's own assertion. Weak
# fairness (-f): a process that can always take its next step takes it.
row() {
	local want=$1 claim=$2 out got began=${EPOCHREALTIME/./} flags=(-a -f -m1000000 -N "$2")
	shift 2
	[ "$claim" != - ] || flags=(-E)
	spin "${@/#/-D}" -a "$model" >/dev/null
	gcc -O0 -w -DMEMLIM=4096 -DNFAIR=4 -o pan pan.c
	out=$(./pan "${flags[@]}")
	if grep -q 'errors: 0$' <<<"$out"; then got=holds; else got=fails; fi
	if grep -qE 'max search depth too small|out of memory' <<<"$out"; then got=unfinished; fi
	[ "$got" = "$want" ] || wrong=1
	printf '%-8s %-22s %-32s %9s states %5s s%s\n' "$claim" "${1:-}" "${*:2}" \
		"$(awk '/states, stored/ { print $1; exit }' <<<"$out")" \
		"$(((${EPOCHREALTIME/./} - began) / 1000000))" \
		" $got$([ "$got" = "$want" ] || echo ", must be: $want")"
}

# The root's death ends its session: at level 4 without a daemon, below only with one that looks.
row holds ends LEVEL=4
row holds ends LEVEL=3 HOST N=2
row fails ends LEVEL=3
row fails ends LEVEL=2
row holds ends LEVEL=2 DAEMON
row fails ends LEVEL=2 DAEMON DEAF
# Nobody survives a condemned session, although signals fail.
row holds dies LEVEL=4 HOST N=2
row holds dies LEVEL=2 DAEMON
row fails dies LEVEL=4
# It is reported as over, and only when nobody lives.
row holds empties LEVEL=2 DAEMON
row holds proven LEVEL=4 DAEMON N=2
row holds proven LEVEL=2 DAEMON
# A newborn is seen by the walk, or sees the state.
row holds - LITMUS
row fails - LITMUS NO_BIRTH_BARRIER
row fails - LITMUS NO_SENTENCE_BARRIER
row fails - LITMUS NO_DOOMED
exit $wrong
