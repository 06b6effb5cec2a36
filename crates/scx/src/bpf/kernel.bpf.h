/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kernel.bpf.h - all that differs between kernels from 6.12 on. Other files call nothing that one
 * of them lacks, except by the names below.
 *
 * A program is one for all kernels: whether a function, a field or a value exists is found out when
 * it is loaded (weak symbols, CO-RE), and the verifier removes what a kernel lacks. Names are those
 * of the newest kernel. scx's header (compat.bpf.h) maps them to older ones where it knows them; it
 * drops what its own schedulers no longer need, so what it has dropped or is about to drop is here.
 * The loader does the same for flags and hooks (kernel_has.rs), and its test compares its list with
 * the names in these files.
 *
 *	name				since	before
 *	scx_bpf_dsq_insert()		6.13	scx_bpf_dispatch(); from 6.19 on it returns a value
 *	scx_bpf_dsq_insert_vtime()	6.13	scx_bpf_dispatch_vtime(); from 6.19 on by a struct
 *	scx_bpf_dsq_move_to_local()	6.13	scx_bpf_consume(); from 7.1 on with flags
 *	scx_bpf_dsq_move(), _vtime(), _set_slice(), _set_vtime()
 *					6.13	scx_bpf_dispatch_from_dsq() and so on
 *	cpu_curr()			6.18	scx_bpf_cpu_rq(), which is to go
 *	scx_bpf_reenqueue_local()	6.12	from 6.19 on from anywhere, from 7.1 on scx_bpf_dsq_reenq()
 *	scx_bpf_task_set_slice()	6.19	a write to p->scx.slice
 */
#ifndef SCX_WAKELAB_KERNEL_H
#define SCX_WAKELAB_KERNEL_H

/*
 * A program of scx's header may print a warning. A kernel that loads a program with that call
 * switches on the event by which it would be seen. From then on, also when the scheduler has gone,
 * it notes the tasks' names for that event at each switch and wake-up. So nothing here can print.
 */
#define bpf_trace_printk(format, ...) ((void)(format))
#include <scx/common.bpf.h>
#undef bpf_trace_printk
#include <scx/compat.bpf.h>

/* libbpf looks for a name without what follows the three underscores. */
struct task_struct *scx_bpf_cpu_curr___from_6_18(s32 cpu) __ksym __weak;
struct rq *scx_bpf_cpu_rq___until_gone(s32 cpu) __ksym __weak;

/* The task that runs on cpu; null if it is not known. The caller is an RCU reader. */
static struct task_struct *cpu_curr(s32 cpu)
{
	struct rq *rq;

	if (bpf_ksym_exists(scx_bpf_cpu_curr___from_6_18))
		return scx_bpf_cpu_curr___from_6_18(cpu);
	if (!bpf_ksym_exists(scx_bpf_cpu_rq___until_gone))
		return NULL;
	rq = scx_bpf_cpu_rq___until_gone(cpu);
	return rq ? rq->curr : NULL;
}

#endif /* SCX_WAKELAB_KERNEL_H */
