// Package bpf holds the kernel side: the C programs and the Go types and
// objects that bpf2go makes of them. The objects are committed, so that a
// build needs no clang; `make generate` makes them anew.
package bpf

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target amd64,arm64 -cflags "-O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3" -type entry -type own_key -type session -type ctl -type verb_args -type event_header -type facts -type event_birth -type event_exec -type event_exit -type event_killed -type event_stop -type event_crossing -type event_moved -type death -type sent -type sender -type sent_flags -type event_reparent -type event_reaped -type event_session -type listener -type event_listen -type seen -type event_type -type entry_flags -type counter -type agent -type halt -type source -type runs -type file_id Lineage lineage.bpf.c
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target amd64,arm64 -cflags "-O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3" Baseline baseline.bpf.c
