//go:build linux

#include "textflag.h"

TEXT lineage_start(SB), NOSPLIT|NOFRAME, $0
	CMPQ	0(SP), $2		// argc
	JLT	done
	LEAQ	16(SP), BX		// argv + 1
	MOVQ	(BX), AX
	CMPL	(AX), $0x00646e65	// "end"
	JNE	word
	MOVL	$1, -8(SP)		// struct sched_param
	MOVL	$144, AX		// sched_setscheduler
	XORL	DI, DI			// this thread
	MOVL	$2, SI			// SCHED_RR
	LEAQ	-8(SP), DX
	SYSCALL
	JMP	done
word:
	MOVQ	(BX), AX
	TESTQ	AX, AX
	JEQ	done
	CMPL	(AX), $0x006e7572	// "run"
	JEQ	hide
	CMPL	(AX), $0x68735f5f	// "__shim"
	JEQ	hide
	ADDQ	$8, BX
	JMP	word
hide:
	MOVL	$157, AX		// prctl
	MOVL	$4, DI			// PR_SET_DUMPABLE
	XORL	SI, SI			// SUID_DUMP_DISABLE
	SYSCALL
done:
	MOVL	$14, AX			// rt_sigprocmask
	XORL	DI, DI
	XORL	SI, SI			// changes nothing
	LEAQ	·Blocked(SB), DX
	MOVL	$8, R10
	SYSCALL
	MOVL	$64, BX
signal:
	MOVL	$13, AX			// rt_sigaction
	MOVL	BX, DI
	XORL	SI, SI
	LEAQ	-32(SP), DX		// struct sigaction
	SYSCALL
	SHLQ	$1, R12			// 64 times: nothing is left of what it was
	CMPQ	-32(SP), $1		// SIG_IGN
	JNE	heeded
	ORQ	$1, R12
heeded:
	DECL	BX
	JNE	signal
	MOVQ	R12, ·Ignored(SB)
	MOVL	$2, BX
fd:
	MOVL	$72, AX			// fcntl
	MOVL	BX, DI
	MOVL	$1, SI			// F_GETFD
	SYSCALL
	TESTQ	AX, AX
	JGE	open
	MOVL	BX, CX
	MOVL	$1, AX
	SHLL	CX, AX
	ORB	AX, ·closed(SB)
open:
	DECL	BX
	JGE	fd
	JMP	_rt0_amd64_linux(SB)
