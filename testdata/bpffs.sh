#!/bin/sh
# bpffs.sh COMMAND…: runs COMMAND in a mount namespace of its own with an empty
# bpffs at /sys/fs/bpf. What it pins there dies with it, whatever it forgets, and
# it cannot touch the pins of the host. Its source is the checkout: leftovers.sh.
set -eu
if [ "$(id -u)" -ne 0 ]; then
	echo "bpffs.sh: needs root; run it with sudo" >&2
	exit 1
fi
# The variable keeps the namespace's shell from expanding COMMAND again.
# shellcheck disable=SC2016
exec unshare --mount --propagation private sh -c \
	'mount -t bpf "$0" /sys/fs/bpf && exec "$@"' "$(cd "$(dirname "$0")/.." && pwd -P)" "$@"
