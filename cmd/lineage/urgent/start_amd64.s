//go:build linux

#include "textflag.h"

TEXT lineage_start(SB), NOSPLIT|NOFRAME, $0
	CMPQ	0(SP), $2		// argc
	JLT	done
	MOVQ	16(SP), AX		// argv[1]
	CMPL	(AX), $0x00646e65	// "end"
	JNE	done
	MOVL	$1, -8(SP)		// struct sched_param
	MOVL	$144, AX		// sched_setscheduler
	XORL	DI, DI			// this thread
	MOVL	$2, SI			// SCHED_RR
	LEAQ	-8(SP), DX
	SYSCALL
done:
	JMP	_rt0_amd64_linux(SB)
