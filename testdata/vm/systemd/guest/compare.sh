#!/bin/bash
# compare.sh: what systemd-run leaves behind, by the test of package escapes.
set -uo pipefail
cd /src || exit 1
export PATH=/usr/bin:/usr/sbin XDG_RUNTIME_DIR=/run/user/0 LNGTEST=1
stty -F /dev/ttyS1 -onlcr raw 2>/dev/null
printf '\036begin compare\n'
code=0
began=${EPOCHREALTIME/./}
systemctl start user@0.service
(cd internal/e2e/escapes && timeout 1500 /src/testdata/bpffs.sh /src/bin/escapes.test -test.v -test.run 'TestSystemdRun$') 2>&1 || code=$?
printf '\n\036end %d %d compare\n\036done\n' "$code" $(((${EPOCHREALTIME/./} - began) / 1000))
stty -F /dev/ttyS1 drain 2>/dev/null
