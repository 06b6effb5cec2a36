/* SPDX-License-Identifier: GPL-2.0-only */
/* own_groups.bpf.c - as own.bpf.c, on a machine with cgroups. */
#define WL_OWN
#define OWN_nr_groups 1 /* how many there are is not known, but that there are some */
#include "main.bpf.c"
