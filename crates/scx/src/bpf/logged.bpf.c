/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * logged.bpf.c - the scheduler that logs: main.bpf.c with a record of every question and event
 * (log.bpf.h).
 *
 * It is a separate program, so that the one that does not log pays nothing, neither in instructions
 * nor in stack.
 */
#define WL_LOGS
#include "main.bpf.c"
