/* SPDX-License-Identifier: Apache-2.0 */
/*
 * against PID MAP PROGRAM PIN: what root can do to a process and to BPF objects. For
 * each line on stdin it tries everything, prints "NAME ERRNO" for each (0: permitted),
 * and then "ready". Nothing that it tries does harm: the signal is SIGURG, the pin is
 * moved away and back.
 */
#include "lngtest.h"

#include <linux/bpf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

static void tell(const char *what, long result)
{
	printf("%s %d\n", what, result < 0 ? errno : 0);
}

static long bpf(int cmd, union bpf_attr *attr)
{
	return syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

static void closed(const char *what, long fd)
{
	tell(what, fd);
	if (fd >= 0)
		close(fd);
}

static long load(enum bpf_prog_type type)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = {
		.prog_type = type,
		.insns = (unsigned long)insns,
		.insn_cnt = 2,
		.license = (unsigned long)"GPL",
	};

	return bpf(BPF_PROG_LOAD, &attr);
}

/* The readiness of a pipe as a signal to another process: no call reports its result. */
static void sigio(pid_t pid)
{
	int p[2];

	if (pipe(p) || fcntl(p[0], F_SETOWN, pid) || fcntl(p[0], F_SETSIG, SIGURG) ||
	    fcntl(p[0], F_SETFL, O_ASYNC | O_NONBLOCK))
		die("sigio");
	if (write(p[1], "x", 1) != 1)
		die("write");
	close(p[0]);
	close(p[1]);
	tell("sigio", 0);
}

static void acts(pid_t pid, unsigned int map, unsigned int program, const char *pin)
{
	char path[PATH_MAX], byte;
	struct iovec here = { &byte, 1 }, there = { (void *)4096, 1 };
	union bpf_attr attr;
	int fd = syscall(SYS_pidfd_open, pid, 0);

	tell("signal 0", kill(pid, 0));
	tell("kill", kill(pid, SIGURG));
	tell("pidfd_send_signal", syscall(SYS_pidfd_send_signal, fd, SIGURG, NULL, 0));
	tell("tgkill", syscall(SYS_tgkill, pid, pid, SIGURG));
	sigio(pid);
	closed("pidfd_getfd", syscall(SYS_pidfd_getfd, fd, 0, 0));
	close(fd);
	/* If it is permitted, it finds nothing there. */
	errno = 0;
	if (process_vm_readv(pid, &here, 1, &there, 1, 0) < 0 && errno == EFAULT)
		errno = 0;
	tell("process_vm_readv", errno ? -1 : 0);
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	closed("mem", open(path, O_RDWR));
	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	closed("environ", open(path, O_RDONLY));
	tell("ptrace", ptrace(PTRACE_SEIZE, pid, 0, 0));

	attr = (union bpf_attr){ .map_id = map };
	closed("map by id", bpf(BPF_MAP_GET_FD_BY_ID, &attr));
	attr = (union bpf_attr){ .prog_id = program };
	closed("program by id", bpf(BPF_PROG_GET_FD_BY_ID, &attr));
	attr = (union bpf_attr){ .pathname = (unsigned long)pin };
	closed("map by pin", bpf(BPF_OBJ_GET, &attr));
	closed("load raw_tracepoint", load(BPF_PROG_TYPE_RAW_TRACEPOINT));
	closed("load socket_filter", load(BPF_PROG_TYPE_SOCKET_FILTER));
	attr = (union bpf_attr){
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1
	};
	closed("create map", bpf(BPF_MAP_CREATE, &attr));

	snprintf(path, sizeof(path), "%s-moved", pin);
	int moved = rename(pin, path);

	tell("rename", moved);
	if (!moved && rename(path, pin))
		die("rename back");
	snprintf(path, sizeof(path), "%s-copy", pin);
	tell("unlink", unlink(path));
	say("ready");
}

/* A child for each turn: its exit releases everything that it acquired. */
int main(int argc, char **argv)
{
	begin(argc, argv);
	if (argc != 5) {
		fprintf(stderr, "usage: against PID MAP PROGRAM PIN\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	pid_t pid = number(argc, argv, 1, 0, 1, 1 << 22);
	long map = number(argc, argv, 2, 0, 1, INT_MAX);
	long program = number(argc, argv, 3, 0, 1, INT_MAX);
	char line[16];

	while (fgets(line, sizeof(line), stdin)) {
		pid_t child = forked();

		if (child == 0) {
			acts(pid, map, program, argv[4]);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
	return 0;
}
