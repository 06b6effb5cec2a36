/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * logged.bpf.c - the scheduler that logs: main.bpf.c with a record of every question and event
 * (log.bpf.h).
 *
 * It is a separate program, so that logging costs the other one neither instructions nor stack.
 */
#define WL_LOGS
#include "main.bpf.c"
