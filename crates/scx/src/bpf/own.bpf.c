/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * own.bpf.c - main.bpf.c for the policy `wakelab` alone, on a machine without cgroups.
 *
 * The verifier removes code that other policies need, but not the loads, tests and spilled
 * registers that the compiler has merged for all of them. Where the compiler knows the policy, a
 * call of enqueue, running or stopping takes a quarter to a third fewer instructions, and the
 * programs need less of the stack.
 */
#define WL_OWN
#define OWN_nr_groups 0
#include "main.bpf.c"
