/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * groups_exact_lag.h - groups=exact: how v's grow, and what becomes of a lag when there is nothing
 * to lag behind.
 *
 * The lag of a task or group is how far it is behind its parent's clock: what it was entitled to
 * and did not get. It must not grow in two cases:
 *   saturated	None of its tasks waits, yet it receives CPU time more slowly than its parent's
 *		clock advances, because it has fewer tasks than its shares are worth; or no task
 *		waits on the whole machine. Then its distance from the clock is held, so that the
 *		others keep what it cannot use.
 *   asleep	The distance is kept, at most WL_EXACT_LAG_TICKS of its CPU time plus
 *		WL_EXACT_LAG_ROUNDS ticks of its parent's clock, and it wakes at that distance.
 *   nearer	A clock is an average of those that were picked, so it goes forth and back: it moves
 *		on a quarter of the way to an overdue task that is far ahead, and back to the tasks
 *		behind. In both cases, something ahead of a clock that comes nearer from behind is
 *		not pushed on: its v grows no more than if it ran all the time, until the clock has
 *		reached it. And the v of something behind does not fall when the clock comes nearer
 *		from ahead. Otherwise each swing of the clock would add to somebody's distance,
 *		which would make the next swing wider
 *   overdue	A task that runs because it has waited for too long (wait.h) is forgiven its lead:
 *		its v is the clock's, which it does not move. The clocks of groups move
 * So a lag is neither lost nor gained by sleeping, or by running alone for a while. If a group is
 * in several LLCs, one of them, its home, does this. Counts of other LLCs are up to a tick old
 * there, except that a task that was pulled away is counted at once; otherwise its group would look
 * saturated, and lose its lag.
 *
 * Example: A and B have 1024 shares each on 4 CPUs; A has one task, B has four. The clock is B's
 * and advances at rate 3 (three CPUs at 1024 shares), while A's one CPU gives it 1: A is held, and
 * B has the other three CPUs. When two more tasks of A wake, A's distance is what it was, 0, and
 * not what A could not use; from then on both have 2 CPUs.
 *
 * Bound: no task's v is below the smallest v at which any began, and none exceeds the largest by
 * more than the time since then at 1024 / the smallest weight, whatever its tasks do: v's grow by
 * CPU time received, and all else moves them towards a clock, which is between them, or no further
 * than CPU time would have. Of groups on several LLCs this holds only as far as their sums are new.
 *
 * Example of a swing: A's v is 4 s beyond the clock, and A is picked because it is overdue. If the
 * clock moved on by 1 s and A, as saturated, were held at 4 s, A would be at 5 s as soon as the
 * others, which are behind, had moved the clock back: 1.25 times as far, once a second.
 *
 * Cost: an event of a task writes a line per level, and needs no division beyond those of its
 * charge. It fails where the clock's rate changes faster than WL_EXACT_RATE_US: a group that has
 * about as many tasks as its shares are worth CPUs is then wrongly held, or not held, for up to
 * that time. And a group that is saturated or asleep while the clock advances faster than it could
 * run loses its lead, which is at most some ticks unless CPUs stood still.
 */
#ifndef WL_GROUPS_EXACT_LAG_H
#define WL_GROUPS_EXACT_LAG_H

#include "run_queue.h"

#define WL_EXACT_LAG_TICKS  8
#define WL_EXACT_LAG_ROUNDS 64
#define WL_EXACT_SLEEP_NS   (1ULL << 40) /* counts of a group's sleep, so that no v overflows */

/* ------------------------------------------------------------------ charging */

/*
 * Holds the v of a saturated task or group at `mark`, its distance from the clock so far. If the
 * group is `content`, it does not fall behind; if no task waits for its CPUs (`spare`), it does not
 * get ahead either. Returns the correction of v, by which it grew by `gained` since the last time.
 * If neither is the case, returns 0 and sets `mark` to the distance.
 */
WL_INLINE u64 wl_exact_hold(u64 v, u64 gained, const struct wl_clock *clock, u64 *mark, u32 content,
			    u32 spare)
{
	u64 distance = v - wl_read_once(clock->v), behind = wl_get(*mark) - distance;

	if (!content && !spare) {
		*mark = distance;
		return 0;
	}
	/* Nothing is pushed by a clock that came nearer. */
	if ((s64)wl_get(*mark) > 0 && (s64)behind > 0)
		*mark = (s64)distance > 0 ? distance : 0;
	else if (spare && (s64)wl_get(*mark) < 0 && (s64)(behind + gained) < 0)
		*mark = (s64)(distance - gained) < 0 ? distance - gained : 0;
	behind = wl_get(*mark) - distance;
	return spare || (s64)behind > 0 ? behind : 0;
}

/*
 * Does the v of a group with these shares grow more slowly on `cpus` CPUs than a clock of this
 * rate? The growth is cpus * 2^20 / shares in the unit of a clock's rate.
 */
WL_INLINE u32 wl_exact_is_slower(u32 cpus, u32 shares, u32 rate)
{
	return (u64)cpus << 20 < (u64)rate * shares;
}

/* Does no task wait anywhere, as far as this LLC knows? */
WL_INLINE u32 wl_exact_is_spare(struct wl_policy *p, u32 llc)
{
	struct wl_cpu *c = wl_cpu_of(p, llc);

	return !wl_read_once(c->exact_llc.waiting) && !wl_read_once(c->exact_llc.others_wait);
}

/*
 * What an event of a task changes in its group and in each group above it. It is one word, because
 * functions in BPF have few arguments.
 */
union wl_exact_change {
	struct {
		u8 advances; /* 1: their v's are brought up to the time of the event */
		u8 sleeps;   /* 1: the task went to sleep, and so may they */
		s8 waiting;  /* what is added to the number of waiting tasks */
		s8 running;
	};
	u32 all;
};

/* What a group is in an LLC; both records are null if it has none there, as the root. */
struct wl_exact_here {
	struct wl_group *g;
	struct wl_group_cpu *gl;
	struct wl_clock *clock; /* its parent's */
	u32 slot;
	u32 llc;
};

/* A group in the LLC of cpu. Each look-up costs as much as a part of what is done with it. */
WL_INLINE struct wl_exact_here wl_exact_at(struct wl_policy *p, u32 slot, u32 cpu)
{
	struct wl_exact_here at = {.slot = slot, .llc = wl_llc_first(p, cpu)};

	if (!slot)
		return at;
	at.g = wl_group_at(p, slot);
	at.gl = wl_group_cpu_at(p, slot, at.llc);
	return at;
}

/* The clock of a group's tasks: wl_exact_clock(). */
WL_INLINE struct wl_clock *wl_exact_clock_at(struct wl_policy *p, const struct wl_exact_here *at)
{
	return at->gl ? &at->gl->exact.clock : &wl_cpu_of(p, at->llc)->exact_llc.clock;
}

/*
 * Brings the v of a group up to now_ns, for what its tasks received in the LLC. spare: no task
 * waits anywhere.
 */
WL_INLINE void wl_exact_advance_group(struct wl_policy *p, const struct wl_exact_here *at,
				      u64 now_ns, u32 spare)
{
	struct wl_group *g = at->g;
	struct wl_group_cpu *gl = at->gl, *home;
	struct wl_clock *clock = at->clock;
	s64 time_ns;
	u64 gained = 0;
	u32 running, runnable, waits;

	/*
	 * CPUs read their clocks before they come here, and may arrive in another order. Because
	 * the time is exchanged, what two of them add up to is the time that passed: a CPU that
	 * arrives late with an earlier time subtracts the difference again.
	 */
	time_ns = now_ns - wl_atomic_xchg(&gl->exact_others.advanced_ns, now_ns);
	running = wl_read_once(gl->exact.running);
	if (running && time_ns) {
		gained = wl_exact_v_of((time_ns < 0 ? -(u64)time_ns : (u64)time_ns) * running,
				       wl_get(g->shares));
		gained = time_ns < 0 ? -gained : gained;
		wl_atomic_add(&gl->exact.part, gained);
	}
	if (wl_get(g->exact.home) != at->llc) {
		home = wl_group_cpu_at(p, at->slot, wl_get(g->exact.home));
		if (home && !wl_read_once(home->exact.waiting) &&
		    !wl_read_once(home->exact.running)) {
			g->exact.home = at->llc;
			gl->exact.mark = wl_exact_v(gl) - wl_get(clock->v);
		}
	}
	running += wl_get(gl->exact_others.running);
	runnable = running + wl_read_once(gl->exact.waiting) + wl_get(gl->exact_others.waiting);
	gl->exact_others.capped =
		wl_exact_is_slower(runnable, wl_get(g->shares), wl_get(clock->rate));
	waits = runnable != running || !running;
	if (wl_get(g->exact.home) == at->llc) {
		u64 held = wl_exact_hold(wl_exact_v(gl), gained, clock, &gl->exact.mark,
					 !waits && wl_exact_is_slower(running, wl_get(g->shares),
								      wl_get(clock->rate)),
					 !waits && spare);

		if (held)
			wl_atomic_add(&gl->exact.part, held);
	}
	wl_wrote_group(p, at->slot, at->llc);
}

/* Adds to the numbers of waiting and running tasks of a group in the LLC. */
WL_INLINE void wl_exact_count(struct wl_policy *p, const struct wl_exact_here *at,
			      union wl_exact_change change)
{
	struct wl_group_cpu *gl = at->gl, *home;

	/* Without the task whose place changes, is it new in the LLC? */
	if (change.waiting + change.running >= 0 && wl_get(at->g->exact.home) != at->llc &&
	    wl_read_once(gl->exact.waiting) == (change.waiting < 0) &&
	    wl_read_once(gl->exact.running) == (change.running < 0)) {
		home = wl_group_cpu_at(p, at->slot, wl_get(at->g->exact.home));
		if (home && (s64)(wl_get(home->exact.clock.v) - wl_get(gl->exact.clock.v)) > 0)
			gl->exact.clock = home->exact.clock;
	}
	if (change.waiting)
		wl_atomic_add(&gl->exact.waiting, (u32)change.waiting);
	if (change.running)
		wl_atomic_add(&gl->exact.running, (u32)change.running);
	wl_line_updated(p, wl_group_line(p, at->slot, at->llc));
}

/* If a group went to sleep with its last task, its distance from its parent's clock is kept. */
WL_INLINE u32 wl_exact_group_sleeps(const struct wl_exact_here *at)
{
	struct wl_group_cpu *gl = at->gl;

	if (wl_read_once(gl->exact.waiting) + wl_read_once(gl->exact.running) +
	    wl_get(gl->exact_others.waiting) + wl_get(gl->exact_others.running))
		return 0;
	at->g->exact.home = at->llc;
	gl->exact.mark = wl_exact_v(gl) - wl_get(at->clock->v);
	return 1;
}

#define WL_EXACT_SPARE	0x80000000u /* of a slot: no task waits anywhere */
#define WL_EXACT_ASLEEP 0x80000000u /* of a parent: its child sleeps */

/* One group's part of wl_exact_pass(): returns the group's parent, or 0. */
WL_INLINE u32 wl_exact_pass_here(struct wl_policy *p, struct wl_exact_here *at, u64 now_ns,
				 u32 spare, union wl_exact_change change)
{
	u32 parent;

	if (!at->g || !at->gl)
		return 0;
	parent = wl_get(at->g->parent);
	at->clock = wl_exact_clock(p, parent, at->llc);
	if (change.advances)
		wl_exact_advance_group(p, at, now_ns, spare);
	if (change.waiting || change.running)
		wl_exact_count(p, at, change);
	if (change.sleeps && wl_exact_group_sleeps(at))
		parent |= WL_EXACT_ASLEEP;
	return parent;
}

/*
 * As wl_exact_pass_here(). A separate function, because elsewhere its many paths would be too many
 * for BPF's verifier.
 */
WL_FN u32 wl_exact_pass_group(struct wl_policy *p WL_ARG, u32 slot_and_spare, u32 cpu, u64 now_ns,
			      u32 all)
{
	struct wl_exact_here at = wl_exact_at(p, slot_and_spare & ~WL_EXACT_SPARE, cpu);

	return wl_exact_pass_here(p, &at, now_ns, slot_and_spare & WL_EXACT_SPARE,
				  (union wl_exact_change){.all = all});
}

/*
 * Adds a task of this group to wl_exact_cpu.slots, or takes it off (waiting: -1). In the lower half
 * is the sum of slots, and above it that of their squares. A separate function, to save its
 * caller's stack.
 */
WL_FN_OWN int wl_exact_count_slot(struct wl_policy *p WL_ARG, u32 slot, u32 cpu, s32 waiting)
{
	u64 slots = (u64)slot * slot << 32 | slot;

	wl_atomic_add(&wl_cpu_of(p, cpu)->exact.slots, waiting < 0 ? -slots : slots);
	return 0;
}

/* What wl_exact_pass() changes on cpu itself. Returns WL_EXACT_SPARE, or 0. */
WL_INLINE u32 wl_exact_pass_cpu(struct wl_policy *p, u32 slot, u32 cpu,
				union wl_exact_change change)
{
	u32 llc = wl_llc_first(p, cpu);
	u32 spare = wl_exact_is_spare(p, llc) ? WL_EXACT_SPARE : 0;

	if (change.waiting) {
		if (slot)
			wl_exact_count_slot(p, slot, cpu, change.waiting);
		wl_atomic_add(&wl_cpu_of(p, llc)->exact_llc.waiting, (u32)change.waiting);
		wl_line_updated(p, WL_LINE_LLC + (llc & (WL_MAX_CPUS - 1)));
	}
	return spare;
}

/*
 * wl_exact_pass(), of the groups alone, from `at` up. Inlined, because BPF's stack has no room for
 * one more frame.
 */
WL_INLINE void wl_exact_pass_up(struct wl_policy *p, u32 at, u32 spare, u32 cpu, u64 now_ns,
				union wl_exact_change change)
{
	u32 i, parent;

	wl_for_depth (i) {
		if (!at)
			break;
		parent = wl_exact_pass_group(p, at | spare, cpu, now_ns, change.all);
		change.sleeps &= parent >> 31;
		at = parent & ~WL_EXACT_ASLEEP;
	}
}

/*
 * An event at now_ns on cpu changes the groups from `slot` up, each once. Their v's grow with the
 * number of tasks that run, so they are brought up to now_ns before that changes.
 */
WL_FN_OWN int wl_exact_pass(struct wl_policy *p WL_ARG, u32 slot, u32 cpu, u64 now_ns, u32 all)
{
	union wl_exact_change change = {.all = all};
	u32 spare = wl_exact_pass_cpu(p, slot, cpu, change);

	wl_exact_pass_up(p, slot, spare, cpu, now_ns, change);
	return 0;
}

/*
 * As wl_exact_pass(), from a group that has been looked up. Events of every switch and wake-up do
 * most of it without a call.
 */
WL_INLINE void wl_exact_pass_at(struct wl_policy *p, struct wl_exact_here *at, u32 cpu, u64 now_ns,
				union wl_exact_change change)
{
	u32 spare, parent;

	if (!WL_HAS_STACK) {
		wl_exact_pass(p, at->slot, cpu, now_ns, change.all);
		return;
	}
	spare = wl_exact_pass_cpu(p, at->slot, cpu, change);
	parent = wl_exact_pass_here(p, at, now_ns, spare, change);
	change.sleeps &= parent >> 31;
	wl_exact_pass_up(p, parent & ~WL_EXACT_ASLEEP, spare, cpu, now_ns, change);
}

/* Brings the v's of the groups from `slot` up to now_ns. Also called at ticks. */
WL_INLINE void wl_exact_advance(struct wl_policy *p, u32 slot, u32 cpu, u64 now_ns)
{
	if (slot)
		wl_exact_pass(p, slot, cpu, now_ns, (union wl_exact_change){.advances = 1}.all);
}

/*
 * A task of this group that waited on cpu now waits in another LLC. The LLC that it left counts
 * this at once, and the rest when it reads the sums again.
 */
WL_FN int wl_exact_went(struct wl_policy *p WL_ARG, u32 slot, u32 cpu)
{
	u32 llc = wl_llc_first(p, cpu), at = slot, i;

	wl_for_depth (i) {
		struct wl_group *g = wl_group_at(p, at);
		struct wl_group_cpu *gl = wl_group_cpu_at(p, at, llc);

		if (!at || !g || !gl)
			break;
		gl->exact_others.waiting = wl_get(gl->exact_others.waiting) + 1;
		wl_line_updated(p, wl_group_line(p, at, llc));
		at = wl_get(g->parent);
	}
	return 0;
}

/* wl_exact_recount() of a task that leaves one CPU and joins another. */
WL_INLINE void wl_exact_moved(struct wl_policy *p, u32 slot, union wl_where was, union wl_where now,
			      u64 now_ns)
{
	union wl_exact_change leaves = {.waiting = -(was.place == WL_PLACE_QUEUED),
					.running = -(was.place == WL_PLACE_RUNNING)};
	union wl_exact_change joins = {.waiting = now.place == WL_PLACE_QUEUED,
				       .running = now.place == WL_PLACE_RUNNING};

	if (now_ns)
		wl_exact_advance(p, slot, now.cpu, now_ns);
	wl_exact_pass(p, slot, was.cpu, now_ns, leaves.all);
	wl_exact_pass(p, slot, now.cpu, now_ns, joins.all);
	if (was.place == WL_PLACE_QUEUED && now.place == WL_PLACE_QUEUED &&
	    wl_llc_first(p, was.cpu) != wl_llc_first(p, now.cpu))
		wl_exact_went(p, slot, was.cpu);
}

/*
 * A task of this group that waited on `from` was pulled to `to`, where it waits: the same as
 * wl_exact_recount() without its frame, because a pull has less stack than other callers.
 */
WL_INLINE void wl_exact_pulled(struct wl_policy *p, u32 slot, u32 from, u32 to)
{
	wl_exact_pass(p, slot, from, 0, (union wl_exact_change){.waiting = -1}.all);
	wl_exact_pass(p, slot, to, 0, (union wl_exact_change){.waiting = 1}.all);
	if (wl_llc_first(p, from) != wl_llc_first(p, to))
		wl_exact_went(p, slot, from);
}

/*
 * How a move of a task changes its groups. Before that is counted, they are brought up to now_ns,
 * if that is not 0.
 */
WL_INLINE union wl_exact_change wl_exact_change_of(union wl_where was, union wl_where now,
						   u64 now_ns)
{
	return (union wl_exact_change){
		.advances = !!now_ns,
		.sleeps = now.place == WL_PLACE_NONE && was.place != WL_PLACE_NONE,
		.waiting = (now.place == WL_PLACE_QUEUED) - (was.place == WL_PLACE_QUEUED),
		.running = (now.place == WL_PLACE_RUNNING) - (was.place == WL_PLACE_RUNNING)};
}

/*
 * A task of this group was counted at `was`, and is now at `now`. Before that is counted, the v's
 * of its groups are brought up to now_ns, if that is not 0. A separate function, to save its
 * callers' stack.
 */
WL_FN int wl_exact_recount(struct wl_policy *p WL_ARG, u32 slot, u64 was_both, u64 now_both,
			   u64 now_ns)
{
	union wl_where was = {.both = was_both}, now = {.both = now_both};
	union wl_exact_change change = wl_exact_change_of(was, now, now_ns);

	if (was.place != WL_PLACE_NONE && now.place != WL_PLACE_NONE && was.cpu != now.cpu)
		wl_exact_moved(p, slot, was, now, now_ns);
	else if (slot || change.waiting)
		wl_exact_pass(p, slot, now.cpu, now_ns, change.all);
	return 0;
}

/* Counts t at this place on cpu, also with its groups. */
WL_INLINE void wl_exact_place(struct wl_policy *p, struct wl_task *t, u32 place, u32 cpu,
			      u64 now_ns)
{
	union wl_where now = {.place = place, .cpu = cpu};

	wl_exact_recount(p, t->group, wl_place(p, t, place, cpu).both, now.both, now_ns);
}

/*
 * Counts t at this place on cpu, also with its groups, of which `at` is the lowest. It nearly
 * always comes from the place `usual` there.
 */
WL_INLINE void wl_exact_place_from(struct wl_policy *p, struct wl_task *t, struct wl_exact_here *at,
				   u32 usual, union wl_where now, u64 now_ns)
{
	union wl_where were = {.place = usual, .cpu = now.cpu};
	union wl_where was = wl_place_from(p, t, usual, now.place, now.cpu);
	union wl_exact_change change = wl_exact_change_of(were, now, now_ns);

	if (was.both != were.both)
		wl_exact_recount(p, at->slot, was.both, now.both, now_ns);
	else if (at->slot || change.waiting)
		wl_exact_pass_at(p, at, now.cpu, now_ns, change);
}

/*
 * Charges a running task, whose clock this is, for the time since it was last charged. Returns 1 if
 * its groups must still be brought up to now_ns.
 */
WL_FN_OWN int wl_exact_charge_task(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG,
				   const struct wl_clock *clock WL_ARG, u64 now_ns)
{
	u32 cpu = t->cpu, llc = wl_llc_first(p, cpu);
	u64 delta_ns = now_ns > t->run_start_ns ? now_ns - t->run_start_ns : 0, gained;
	struct wl_cpu *c = wl_cpu_of(p, cpu);
	u32 content, spare;

	if (!delta_ns)
		return 0;
	content = wl_exact_is_slower(1, t->weight, wl_get(clock->rate));
	spare = wl_exact_is_spare(p, llc);
	t->sum_exec_ns += delta_ns;
	t->slice_used_ns += delta_ns;
	t->run_start_ns = now_ns;
	gained = wl_exact_v_of(delta_ns, t->weight);
	t->entity.vtime += gained;
	t->entity.vtime += wl_exact_hold(t->entity.vtime, gained, clock, (u64 *)&t->entity.lag,
					 content, spare);
	wl_write_once(c->queue.curr_vtime, t->entity.vtime);
	wl_write_once(c->queue.curr_start_ns, now_ns);
	wl_wrote_cpu(p, cpu);
	return 1;
}

/* Charges a running task and its groups. A separate function, to save its callers' stack. */
WL_FN int wl_exact_charge_running(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG, u64 now_ns)
{
	struct wl_clock *clock = wl_exact_clock(p, t->group, wl_llc_first(p, t->cpu));

	if (wl_exact_charge_task(p, t, clock, now_ns))
		wl_exact_advance(p, t->group, t->cpu, now_ns);
	return 0;
}

/* Charges a task and its groups, if it runs. */
WL_INLINE void wl_exact_charge(struct wl_policy *p, struct wl_task *t, u64 now_ns)
{
	if (t->place == WL_PLACE_RUNNING)
		wl_exact_charge_running(p, t, now_ns);
}

/* ------------------------------------------------------------------ clocks */

/*
 * Something of this v in a group was picked while others waited: moves the group's clock. Returns
 * the group's own v.
 */
WL_INLINE u64 wl_exact_picked_in(struct wl_policy *p, const struct wl_exact_here *at, u64 v,
				 u64 now_ns)
{
	struct wl_group *g = at->g;
	struct wl_group_cpu *gl = at->gl;

	if (wl_read_once(gl->exact.waiting))
		wl_exact_move_clock(&gl->exact.clock, v, now_ns);
	v = wl_exact_v(gl);
	if (!wl_read_once(gl->exact.waiting) && !wl_get(gl->exact_others.waiting)) {
		if (wl_get(g->exact.home) != at->llc)
			g->exact.home = at->llc;
		gl->exact.mark = v - wl_get(wl_exact_clock(p, wl_get(g->parent), at->llc)->v);
	}
	return v;
}

/* As wl_exact_picked_in(), of a group and all groups above it. Returns the v of the last one. */
WL_FN u64 wl_exact_picked_up(struct wl_policy *p WL_ARG, u32 slot, u32 cpu, u64 v, u64 now_ns)
{
	u32 i;

	wl_for_depth (i) {
		struct wl_exact_here at = wl_exact_at(p, slot, cpu);

		if (!at.g || !at.gl)
			break;
		v = wl_exact_picked_in(p, &at, v, now_ns);
		slot = wl_get(at.g->parent);
	}
	return v;
}

/*
 * t, of the group `at`, was picked on cpu while others waited: moves the clocks of its group and of
 * all groups above.
 */
WL_INLINE void wl_exact_picked(struct wl_policy *p, const struct wl_task *t,
			       const struct wl_exact_here *at, u32 cpu, u64 now_ns)
{
	u64 v = t->entity.vtime;

	if (at->g && at->gl) {
		v = wl_exact_picked_in(p, at, v, now_ns);
		if (wl_get(at->g->parent))
			v = wl_exact_picked_up(p, wl_get(at->g->parent), cpu, v, now_ns);
	}
	if (!wl_read_once(wl_cpu_of(p, cpu)->nr_queued))
		return;
	wl_exact_move_clock(&wl_cpu_of(p, at->llc)->exact_llc.clock, v, now_ns);
	wl_wrote_llc(p, at->llc);
}

/* A distance from a clock, limited in both directions. */
WL_INLINE u64 wl_exact_clamp(struct wl_policy *p, const struct wl_clock *clock, u64 distance,
			     u32 shares)
{
	u64 most = wl_exact_v_of(WL_EXACT_LAG_TICKS * p->params.tick_ns, shares) +
		   wl_mul_shift(WL_EXACT_LAG_ROUNDS * p->params.tick_ns, wl_get(clock->rate), 10);

	if ((s64)distance > (s64)most)
		return most;
	return (s64)distance < -(s64)most ? -most : distance;
}

/*
 * Returns the distance from the clock with which something wakes that slept with this distance and
 * v_was. Its v would be `gained` more if it had run all the time. See `nearer` above.
 */
WL_INLINE u64 wl_exact_awake(const struct wl_clock *clock, u64 distance, u64 v_was, u64 gained)
{
	u64 least = v_was - wl_get(clock->v), most = least + gained;

	if ((s64)distance > 0 && (s64)(distance - most) > 0)
		return (s64)most > 0 ? most : 0;
	if ((s64)distance < 0 && (s64)(distance - least) < 0)
		return (s64)least < 0 ? least : 0;
	return distance;
}

/* t is no longer runnable: its distance from its parent's clock is kept, as that of its groups. */
WL_INLINE void wl_exact_sleep(struct wl_policy *p, struct wl_task *t, u32 cpu)
{
	t->entity.lag =
		t->entity.vtime - wl_get(wl_exact_clock(p, t->group, wl_llc_first(p, cpu))->v);
}

/* May a group sleep, as far as this LLC knows? It does not while it has a task there. */
WL_INLINE u32 wl_exact_may_sleep(const struct wl_group_cpu *gl)
{
	return gl && !(wl_read_once(gl->exact.waiting) + wl_read_once(gl->exact.running));
}

/*
 * A task of this group becomes runnable on cpu. If the group slept, it gets the distance from its
 * parent's clock that it had when it went to sleep. Returns its parent, or 0 if the groups above
 * are awake. A separate function, to save its callers' stack.
 */
WL_FN u32 wl_exact_wake_group(struct wl_policy *p WL_ARG, u32 slot, u32 cpu, u64 now_ns,
			      struct wl_reads *reads WL_ARG)
{
	u32 llc = wl_llc_first(p, cpu), slept;
	struct wl_group_cpu *gl = wl_group_cpu_at(p, slot, llc), *home;
	struct wl_group *g;
	struct wl_clock *clock;
	u64 mark, slept_ns;

	if (!gl || wl_read_once(gl->exact.waiting) + wl_read_once(gl->exact.running))
		return 0;
	g = wl_group_at(p, slot);
	/*
	 * If several CPUs wake the group at the same time, one of them does all of this; otherwise
	 * each would add the time that it slept.
	 */
	if (!g || wl_atomic_xchg_u32(&g->exact.waking, 1))
		return 0;
	/* The sum must be new, to know whether the group slept. */
	gl->exact_others.summed_ns = now_ns - p->params.tick_ns;
	wl_exact_sum_group(p, slot, cpu, now_ns, reads);
	slept = !(wl_get(gl->exact_others.waiting) + wl_get(gl->exact_others.running));
	if (slept) {
		clock = wl_exact_clock(p, wl_get(g->parent), llc);
		home = wl_group_cpu_at(p, slot, wl_get(g->exact.home));
		mark = wl_exact_clamp(p, clock, home ? wl_get(home->exact.mark) : 0,
				      wl_get(g->shares));
		slept_ns = now_ns - wl_read_once(gl->exact_others.advanced_ns);
		if (slept_ns > WL_EXACT_SLEEP_NS)
			slept_ns = (s64)slept_ns < 0 ? 0 : WL_EXACT_SLEEP_NS;
		mark = wl_exact_awake(clock, mark, wl_exact_v(gl),
				      wl_exact_v_of(slept_ns, wl_get(g->shares)) * p->topo.nr_cpus);
		wl_atomic_add(&gl->exact.part, wl_get(clock->v) + mark - wl_exact_v(gl));
		g->exact.home = llc;
		gl->exact.mark = wl_exact_v(gl) - wl_get(clock->v);
		wl_wrote_group(p, slot, llc);
	}
	wl_publish(g->exact.waking, 0);
	return slept ? wl_get(g->parent) : 0;
}

/* t becomes runnable, and gets the distance from its clock with which it went to sleep. */
WL_FN_OWN int wl_exact_wake_task(struct wl_policy *p WL_ARG, struct wl_task *t WL_ARG,
				 const struct wl_clock *clock WL_ARG, u64 now_ns)
{
	u64 slept_ns = now_ns > t->run_start_ns ? now_ns - t->run_start_ns : 0;

	if (t->flags & WL_TASK_NEW)
		t->entity.lag = 0;
	t->flags &= ~WL_TASK_NEW;
	t->entity.vtime = wl_get(clock->v) +
			  wl_exact_awake(clock, wl_exact_clamp(p, clock, t->entity.lag, t->weight),
					 t->entity.vtime, wl_exact_v_of(slept_ns, t->weight));
	/* No time counts twice, however often the task sleeps while it waits. */
	t->run_start_ns = now_ns;
	return 0;
}

/* A task of this group becomes runnable on cpu: so do the groups that slept. */
WL_FN_OWN int wl_exact_wake_groups(struct wl_policy *p WL_ARG, u32 slot, u32 cpu, u64 now_ns,
				   struct wl_reads *reads WL_ARG)
{
	u32 at = slot, i;

	wl_for_depth (i) {
		if (!at)
			break;
		at = wl_exact_wake_group(p, at, cpu, now_ns, reads);
	}
	return 0;
}

/*
 * t becomes runnable on cpu: it and the groups that wake with it get the distances from the clocks
 * that they had when they went to sleep. One function after the other, because a log's program has
 * no stack for both frames at once.
 */
WL_INLINE void wl_exact_wake(struct wl_policy *p, struct wl_task *t, const struct wl_exact_here *at,
			     u32 cpu, u64 now_ns, struct wl_reads *reads)
{
	wl_exact_wake_task(p, t, wl_exact_clock_at(p, at), now_ns);
	if (wl_exact_may_sleep(at->gl))
		wl_exact_wake_groups(p, at->slot, cpu, now_ns, reads);
}

#endif /* WL_GROUPS_EXACT_LAG_H */
