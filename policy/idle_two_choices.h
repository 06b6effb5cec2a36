/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idle_two_choices.h - idle=two-choices: look at two random CPUs of target's LLC, and take the
 * first that is idle.
 *
 * It shows what a search is worth: a design that reads more of the machine must do better than two
 * random looks.
 *
 * The rotor of the CPU that searches is mixed (random.h). Its lower half draws one of the LLC's
 * other CPUs, counted from target's successor on, wrapping; its upper half draws one of those that
 * are left. If a CPU is busy, or the task may not use it, that choice is lost.
 *
 * Example: one LLC of 8 CPUs, target is 1, so that the others are 2, 3, 4, 5, 6, 7 and 0; CPUs 3
 * and 6 are idle. Rotor 0 mixes to 0: the first choice is index 0, CPU 2, which is busy; the second
 * is index 0 + 1 + 0, CPU 3, which is taken after two reads. The next search has rotor 1, which
 * mixes to 0xf281be04: 0xbe04 mod 7 is index 1, CPU 3, which is busy now; 0xf281 mod 6 is 4, so
 * index 1 + 1 + 4, wrapped at 7 to 6, is CPU 0, which is busy. The task stays on its target
 * although CPU 6 is idle.
 *
 * Cost: at most two reads, however wide the LLC is, and no state but the rotor.
 *
 * It fails where few CPUs are idle: if a fraction b of an LLC is busy, about b * b of all searches
 * find nothing, 81 % of them at b = 0.9. It does not distinguish a wholly idle core from the idle
 * sibling of a busy thread, and a task that may use few CPUs of the LLC hardly ever draws one of
 * them.
 */
#ifndef WL_IDLE_TWO_CHOICES_H
#define WL_IDLE_TWO_CHOICES_H

#include "access.h"
#include "random.h"

/* Takes the index-th of the LLC's other CPUs, counted from target's successor on, if it is idle. */
WL_INLINE int wl_take_other(struct wl_policy *p, const struct wl_search *s, const struct wl_task *t,
			    u32 index, struct wl_decision *out)
{
	struct wl_level *llc = wl_level_of(p, p->topo.llc_level);
	u32 dom = wl_entry(llc->dom_of, s->target), first = wl_entry(llc->first, dom);
	u32 start = wl_entry(llc->pos, s->target) - first + 1;
	u32 cpu = wl_entry(llc->cpus, first + wl_wrap(start + index, wl_entry(llc->weight, dom)));

	if (!wl_allowed(p, t, cpu) || !wl_take_counted(p, s, cpu, out))
		return WL_CPU_NONE;
	out->reason = WL_REASON_IDLE_CPU;
	return cpu;
}

/* Returns the CPU claimed, or WL_CPU_NONE. */
WL_FN int wl_search_two_choices(struct wl_policy *p WL_ARG, struct wl_search *s WL_ARG,
				const struct wl_task *t WL_ARG, struct wl_decision *out WL_ARG)
{
	struct wl_level *llc = wl_level_of(p, p->topo.llc_level);
	struct wl_cpu *own = wl_cpu_of(p, s->this_cpu);
	u32 others = wl_entry(llc->weight, wl_entry(llc->dom_of, s->target)) - 1;
	u32 rotor = wl_get(own->rotor), random = wl_mix(rotor), index;
	int cpu;

	if (!others)
		return WL_CPU_NONE;
	own->rotor = rotor + 1;
	wl_line_step(p, WL_STEP_CPU);
	index = (random & 0xffff) % others;
	cpu = wl_take_other(p, s, t, index, out);
	if (cpu >= 0 || others < 2)
		return cpu;
	index = wl_wrap(index + 1 + (random >> 16) % (others - 1), others);
	return wl_take_other(p, s, t, index, out);
}

#endif /* WL_IDLE_TWO_CHOICES_H */
