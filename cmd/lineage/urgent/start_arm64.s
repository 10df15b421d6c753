//go:build linux

#include "textflag.h"

TEXT lineage_start(SB), NOSPLIT|NOFRAME, $0
	MOVD	0(RSP), R0		// argc
	CMP	$2, R0
	BLT	done
	MOVD	16(RSP), R1		// argv[1]
	MOVWU	(R1), R1
	MOVD	$0x00646e65, R2		// "end"
	CMP	R2, R1
	BNE	done
	MOVD	$1, R3			// struct sched_param
	SUB	$16, RSP
	MOVD	R3, 0(RSP)
	MOVD	$119, R8		// sched_setscheduler
	MOVD	$0, R0			// this thread
	MOVD	$2, R1			// SCHED_RR
	MOVD	RSP, R2
	SVC
	ADD	$16, RSP
done:
	JMP	_rt0_arm64_linux(SB)
