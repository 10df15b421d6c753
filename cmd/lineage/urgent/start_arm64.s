//go:build linux

#include "textflag.h"

TEXT lineage_start(SB), NOSPLIT|NOFRAME, $0
	MOVD	0(RSP), R0		// argc
	CMP	$2, R0
	BLT	done
	ADD	$16, RSP, R4		// argv + 1
	MOVD	(R4), R0
	MOVWU	(R0), R1
	MOVD	$0x00646e65, R2		// "end"
	CMP	R2, R1
	BNE	word
	MOVD	$1, R3			// struct sched_param
	SUB	$16, RSP
	MOVD	R3, 0(RSP)
	MOVD	$119, R8		// sched_setscheduler
	MOVD	$0, R0			// this thread
	MOVD	$2, R1			// SCHED_RR
	MOVD	RSP, R2
	SVC
	ADD	$16, RSP
	B	done
word:
	MOVD	(R4), R0
	CBZ	R0, done
	MOVWU	(R0), R1
	MOVD	$0x006e7572, R2		// "run"
	CMP	R2, R1
	BEQ	hide
	MOVD	$0x68735f5f, R2		// "__shim"
	CMP	R2, R1
	BEQ	hide
	ADD	$8, R4
	B	word
hide:
	MOVD	$167, R8		// prctl
	MOVD	$4, R0			// PR_SET_DUMPABLE
	MOVD	$0, R1			// SUID_DUMP_DISABLE
	SVC
done:
	MOVD	$135, R8		// rt_sigprocmask
	MOVD	$0, R0
	MOVD	$0, R1			// changes nothing
	MOVD	$·Blocked(SB), R2
	MOVD	$8, R3
	SVC
	MOVD	$64, R4
	MOVD	$0, R5
	SUB	$32, RSP
signal:
	MOVD	$134, R8		// rt_sigaction
	MOVD	R4, R0
	MOVD	$0, R1
	MOVD	RSP, R2			// struct sigaction
	SVC
	LSL	$1, R5, R5
	MOVD	0(RSP), R0
	CMP	$1, R0			// SIG_IGN
	BNE	heeded
	ORR	$1, R5, R5
heeded:
	SUBS	$1, R4, R4
	BNE	signal
	ADD	$32, RSP
	MOVD	R5, ·Ignored(SB)
	MOVD	$2, R4
fd:
	MOVD	$25, R8			// fcntl
	MOVD	R4, R0
	MOVD	$1, R1			// F_GETFD
	SVC
	TBZ	$63, R0, open
	MOVD	$1, R1
	LSL	R4, R1, R1
	MOVBU	·closed(SB), R2
	ORR	R1, R2, R2
	MOVB	R2, ·closed(SB)
open:
	SUBS	$1, R4, R4
	BGE	fd
	JMP	_rt0_arm64_linux(SB)
