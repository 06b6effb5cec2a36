/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * break.bpf.h - faults for tests (cargo xtask vm test): that the kernel ejects a scheduler that
 * loses a task, and that the loader tries again when no record can be made.
 *
 * A fault needs the loader's hidden option and its environment variable; to lose a task also takes
 * a task with a name that nothing else has. Without the option the verifier sees a constant and
 * removes the code.
 */
#ifndef SCX_WAKELAB_BREAK_H
#define SCX_WAKELAB_BREAK_H

#include <scx/common.bpf.h>

const volatile bool break_stall;
/* init_task() fails as if a record could not be made (again.rs). */
const volatile bool break_start;

/* Is p a task that must not be queued, so that it never runs? */
static bool is_to_be_lost(struct task_struct *p)
{
	static const char victim[] = "stall-victim";
	char comm[16];

	if (!break_stall || bpf_probe_read_kernel(comm, sizeof(comm), p->comm))
		return false;
	return !__builtin_memcmp(comm, victim, sizeof(victim));
}

#endif /* SCX_WAKELAB_BREAK_H */
