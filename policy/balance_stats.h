/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * balance_stats.h - what balancing reads: sums over the groups of a domain, and the busiest group.
 *
 * A CPU compares its own group with the other groups of the domain, level by level from the
 * innermost outwards. The own group of a level is the whole domain of the level below, which has
 * been read by then, so each CPU of the widest level tried is read once. Averages are load per
 * capacity, in 1/1024 of the weight on a CPU of capacity 1024; with capacity=ignored every CPU has
 * that capacity.
 *
 * A CPU that a task of a higher class has taken counts as a CPU with one task more and no capacity
 * (taken.h). Whether its group has room depends on the group's other CPUs: what waits behind the
 * higher class may be bound to that CPU, and must not keep an idle neighbour from pulling.
 *
 * The values of the axis `balance` differ in which group is the busiest. Of equals, the first one
 * in ring order from the own group on stays. With 4.15 and later each group has a type:
 *	spare		it has room: fewer tasks than CPUs, or CPUs that idle
 *	full		(5.12) as many tasks as CPUs, and no CPU idles
 *	overloaded	more tasks than CPUs, and too few CPUs idle: percent / 100 of the busy ones
 *		are more than all; or (5.12) percent / 100 of the CPUs are less than the tasks
 * The kernel takes decayed averages of utilization where this takes the CPUs that are busy now.
 */
#ifndef WL_BALANCE_STATS_H
#define WL_BALANCE_STATS_H

#include "cluster.h"

enum wl_group_type {
	WL_GROUP_SPARE,
	WL_GROUP_FULL,
	WL_GROUP_OVERLOADED,
};

/* For whom something is looked for: in which state is that CPU? */
enum wl_looks {
	WL_LOOKS_BUSY,	/* it runs a task, and a tick or a slice's end has come */
	WL_LOOKS_IDLE,	/* it has idled for a while */
	WL_LOOKS_NEWLY, /* it is about to go idle */
};

/* The capacity that balancing attributes to a taken CPU; no other CPU has so little. */
#define WL_TAKEN_CAPACITY 1

WL_INLINE void wl_stats_clear(struct wl_group_stats *side)
{
	__builtin_memset(side, 0, sizeof(*side));
	side->cpu = WL_CPU_NONE;
	side->lone_cpu = WL_CPU_NONE;
}

/* Adds a CPU, which is read. avoid: see wl_level_stats. Returns 1 if the CPU has two tasks. */
WL_INLINE u32 wl_stats_add(struct wl_policy *p, struct wl_group_stats *side, u32 cpu, u32 avoid)
{
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 queued = wl_read_once(c->nr_queued), nr = queued + wl_read_once(c->nr_running);
	u64 load = wl_read_once(c->load), capacity = wl_entry(p->topo.capacity, cpu);

	side->weight++;
	if (nr == 1 && !queued && (side->lone_cpu < 0 || load > side->lone_load)) {
		side->lone_cpu = cpu;
		side->lone_load = load;
	}
	if (wl_read_once(c->state) == WL_CPU_TAKEN) {
		side->weight += queued;
		nr++;
		capacity = WL_TAKEN_CAPACITY;
	}

	side->load += load;
	side->nr += nr;
	side->idle += wl_looks_idle(p, cpu);
	side->capacity += capacity;
	if (queued && nr > 1 && cpu + 1 != avoid &&
	    (side->cpu < 0 || load * side->cpu_capacity > side->cpu_load * capacity)) {
		side->cpu = cpu;
		side->cpu_capacity = capacity;
		side->cpu_load = load;
		side->cpu_nr = nr;
		side->cpu_queued = queued;
	}
	return nr > 1;
}

/* Load per capacity, in 1/1024 of a weight on a CPU of capacity 1024. */
WL_INLINE u64 wl_mean_1024(u64 load, u32 capacity)
{
	return wl_div(load << 20, capacity);
}

/* The average of the whole domain. */
WL_INLINE u64 wl_domain_mean_1024(const struct wl_level_stats *s)
{
	return wl_mean_1024(s->own.load + s->others_load, s->own.capacity + s->others_capacity);
}

/*
 * The smaller of two loads, by averages: what brings the own group (here) up to the domain's mean,
 * and what brings the busiest one (there) down to it.
 */
WL_INLINE u64 wl_evening_load(const struct wl_level_stats *s, u64 here, u64 there, u64 mean)
{
	u64 excess = there > mean ? (there - mean) * s->busiest.capacity >> 20 : 0;
	u64 lack = mean > here ? (mean - here) * s->own.capacity >> 20 : 0;

	return excess < lack ? excess : lack;
}

/* ------------------------------------------------------------------ types */

/* Has the group room for a task? */
WL_INLINE u32 wl_group_has_room(const struct wl_group_stats *g, u32 percent)
{
	return g->nr < g->weight || 100 * g->weight > (g->weight - g->idle) * percent;
}

/* Is the CPU to take from a taken one? */
WL_INLINE u32 wl_group_is_taken(const struct wl_group_stats *g)
{
	return g->cpu >= 0 && g->cpu_capacity == WL_TAKEN_CAPACITY;
}

WL_INLINE u32 wl_group_is_overloaded(const struct wl_group_stats *g, u32 percent, u32 by_tasks)
{
	if (wl_group_is_taken(g))
		return 1;
	if (g->nr <= g->weight)
		return 0;
	return 100 * g->weight < (g->weight - g->idle) * percent ||
	       (by_tasks && percent * g->weight < 100 * g->nr);
}

/* The type of a group, apart from what its comparison with the own group makes of it. */
WL_INLINE u32 wl_group_type_of(struct wl_policy *p, const struct wl_group_stats *g, u32 percent)
{
	u32 is_new = wl_axis(p, balance) >= WL_BALANCING_5_12;

	if (wl_group_is_overloaded(g, percent, is_new))
		return WL_GROUP_OVERLOADED;
	if (is_new && (!wl_group_has_room(g, percent) ||
		       (g->nr >= g->weight && percent * g->weight < 100 * g->nr)))
		return WL_GROUP_FULL;
	return WL_GROUP_SPARE;
}

/* balance=4.15 and later: is the group just read busier than the busiest so far? */
WL_INLINE u32 wl_group_is_busier(struct wl_policy *p, struct wl_level_stats *s)
{
	struct wl_group_stats *g = &s->group, *busiest = &s->busiest;

	if (!g->nr)
		return 0;
	g->type = wl_group_type_of(p, g, s->percent);
	/* In 4.15, a group with two tasks more than the own one should give them away. */
	if (wl_axis(p, balance) == WL_BALANCING_4_15 && s->prefers && g->nr > s->own.nr + 1 &&
	    wl_group_has_room(&s->own, s->percent))
		g->type = WL_GROUP_OVERLOADED;
	if (!busiest->nr || g->type != busiest->type)
		return !busiest->nr || g->type > busiest->type;
	if (wl_axis(p, balance) >= WL_BALANCING_5_12 && g->type == WL_GROUP_SPARE)
		return g->idle != busiest->idle ? g->idle < busiest->idle : g->nr > busiest->nr;
	if (g->type == WL_GROUP_FULL)
		return 0;
	return g->load * busiest->capacity > busiest->load * g->capacity;
}

/* balance=load: the same; only groups with something to take count. */
WL_INLINE u32 wl_load_is_busier(const struct wl_level_stats *s)
{
	const struct wl_group_stats *g = &s->group, *busiest = &s->busiest;

	if (g->cpu < 0 || busiest->cpu < 0)
		return g->cpu >= 0;
	return s->by_tasks ? g->nr > busiest->nr
			   : g->load * busiest->capacity > busiest->load * g->capacity;
}

/* ------------------------------------------------------------------ sums */

/* A group is complete. */
WL_INLINE void wl_stats_close(struct wl_policy *p, struct wl_level_stats *s)
{
	s->others_load += s->group.load;
	s->others_nr += s->group.nr;
	s->others_idle += s->group.idle;
	s->others_weight += s->group.weight;
	s->others_capacity += s->group.capacity;
	if (wl_axis(p, balance) == WL_BALANCING_LOAD ? wl_load_is_busier(s)
						     : wl_group_is_busier(p, s))
		s->busiest = s->group;
	wl_stats_clear(&s->group);
}

/* The domain of s->to at `level`, its own group, and empty sums. */
WL_INLINE void wl_sum_begins(struct wl_policy *p, struct wl_level_stats *s, u32 level)
{
	struct wl_level *lv = wl_level_of(p, level), *groups = wl_level_of(p, level - 1);
	u32 dom = wl_entry(lv->dom_of, s->to), own = wl_entry(groups->dom_of, s->to);
	u32 own_span = wl_entry(groups->weight, own);

	s->domain[0] = wl_entry(lv->first, dom);
	s->domain[1] = wl_entry(lv->weight, dom);
	s->start = wl_entry(groups->first, own) + own_span - s->domain[0];
	s->left = s->domain[1] - own_span;
	s->own_group = own;
	s->last_group = own;
	s->dist = 0;
	wl_stats_clear(&s->group);
	wl_stats_clear(&s->busiest);
	s->others_load = 0;
	s->others_nr = 0;
	s->others_idle = 0;
	s->others_weight = 0;
	s->others_capacity = 0;
}

/*
 * Reads all groups of the domain at `level` except the own one, in ring order from that one on, and
 * sums them up in the wl_level_stats of cpu, which reads. The own group is that of s->to.
 */
WL_FN int wl_sum_groups(struct wl_policy *p WL_ARG, u32 cpu, u32 level,
			struct wl_reads *reads WL_ARG)
{
	struct wl_level_stats *s = wl_level_stats_of(p, cpu);
	u32 i, other, group;

	wl_sum_begins(p, s, level);
	wl_for (i, 0, s->left) {
		other = wl_entry(wl_level_of(p, level - 1)->cpus,
				 s->domain[0] + wl_wrap(s->start + i, s->domain[1]));
		group = wl_entry(wl_level_of(p, level - 1)->dom_of, other);
		if (group != s->last_group) {
			if (s->last_group != s->own_group)
				wl_stats_close(p, s);
			s->last_group = group;
			s->dist = wl_distance(p, cpu, other);
		}
		wl_read_cpu(p, reads, other, s->dist);
		s->overloaded |= wl_stats_add(p, &s->group, other, s->avoid);
	}
	if (s->last_group != s->own_group)
		wl_stats_close(p, s);
	return 0;
}

/* The level just summed up becomes the own group of the next one. */
WL_INLINE void wl_stats_widen(struct wl_level_stats *s)
{
	s->own.load += s->others_load;
	s->own.nr += s->others_nr;
	s->own.idle += s->others_idle;
	s->own.weight += s->others_weight;
	s->own.capacity += s->others_capacity;
}

#endif /* WL_BALANCE_STATS_H */
