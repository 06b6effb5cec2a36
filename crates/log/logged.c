// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * logged.c - the policy in the layout of a BPF build, driven by the records of a log
 * (host/log_record.h).
 *
 * There are two ways to answer a question. *Live*: from this instance's own state, while the
 * policy's reads are noted. *Replayed*: every read returns the value in the record's notes, and
 * must be of a place that the record says was read. What the policy writes changes no answer, so
 * one instance serves all records in any order. Notes are looked up by their place, because
 * compilers may order the reads of one expression as they like; of several notes of the same place,
 * the first unused one is taken.
 *
 * The macros that see the reads have no argument that leads to the instance. So the thread that
 * makes a call remembers the instance while the call lasts.
 */
#define WL_MAX_CPUS 1024
#define WL_LOGS

#define wl_read_once(x) ((__typeof__((x) + 0))wl_noted(&(x), sizeof(x)))
#define wl_get(x)	wl_read_once(x)

#define wl_atomic_add(ptr, v)	   ((void)(*(ptr) += (v)))
#define wl_atomic_xchg(ptr, v)	   wl_logged_xchg((ptr), (v))
#define wl_atomic_xchg_u32(ptr, v) wl_logged_xchg_u32((ptr), (v))
#define wl_atomic_cas(ptr, was, v) wl_logged_cas((ptr), (was), (v))
#define wl_atomic_or(ptr, bits)	   wl_logged_xchg((ptr), *(ptr) | (bits))
#define wl_atomic_and(ptr, bits)   wl_logged_xchg((ptr), *(ptr) & (bits))
#define wl_publish(x, v)	   wl_write_once(x, v)

/* base.h reads too. */
static __UINT64_TYPE__ wl_noted(const volatile void *at, __UINT32_TYPE__ size);

#include "base.h"

struct wl_logged;
static _Thread_local struct wl_logged *wl_now;

WL_INLINE u64 wl_logged_xchg(wl_pair *ptr, u64 v)
{
	u64 old = wl_noted(ptr, sizeof(*ptr));

	*ptr = v;
	return old;
}

WL_INLINE u32 wl_logged_xchg_u32(u32 *ptr, u32 v)
{
	u32 old = wl_noted(ptr, sizeof(*ptr));

	*ptr = v;
	return old;
}

WL_INLINE u64 wl_logged_cas(wl_pair *ptr, u64 was, u64 v)
{
	u64 old = wl_noted(ptr, sizeof(*ptr));

	if (old == was)
		*ptr = v;
	return old;
}

#include "policy.h"

static u32 wl_logged_claim(u32 cpu);
static struct wl_group *wl_logged_group(u32 slot);
static struct wl_group_cpu *wl_logged_group_cpu(u32 slot, u32 cpu);

#define wl_claim_idle(p, cpu)	      ((void)(p), wl_logged_claim(cpu))
#define wl_group_at(p, slot)	      ((void)(p), wl_logged_group(slot))
#define wl_group_cpu_at(p, slot, cpu) ((void)(p), wl_logged_group_cpu((slot), (cpu)))

#include "core.h"
#include "event.h"
#include "logged.h"
#include "mirror_check.h"

/* The records of tasks and groups lie behind it, in the same block of memory: wl_logged_place(). */
struct wl_logged {
	struct wl_policy policy; /* first: a note's `what` is an offset in this struct */
	u64 idle_mask[WL_MASK_WORDS];
	struct wl_task *tasks;
	struct wl_group *groups;
	struct wl_group_cpu *group_cpus;
	u64 size;

	struct wl_note *notes; /* live: room for max_notes; replayed: nr_notes of a record */
	u8 *used;	       /* replayed: which of them were asked for */
	u32 nr_notes;
	u32 max_notes;
	u32 replays;
	u32 first_unused;	/* the notes before it were all asked for */
	u32 nr_missing;		/* reads for which the record has no note */
	u32 cut;		/* live: there was no room for a note */
	struct wl_note missing; /* the first of them */
};

/* ------------------------------------------------------------------ what the policy reads */

static void wl_append(u32 what, u32 kind, u64 value)
{
	struct wl_logged *l = wl_now;

	if (l->nr_notes == l->max_notes) {
		l->cut = 1;
		return;
	}
	l->notes[l->nr_notes].what = what;
	l->notes[l->nr_notes].kind = kind;
	l->notes[l->nr_notes].value = value;
	l->nr_notes++;
}

/*
 * Returns the value of the first note of this place that was not asked for yet; 0 if there is none.
 */
static u64 wl_find_note(u32 what, u32 kind)
{
	struct wl_logged *l = wl_now;
	u32 i;

	while (l->first_unused < l->nr_notes && l->used[l->first_unused])
		l->first_unused++;
	for (i = l->first_unused; i < l->nr_notes; i++) {
		if (l->used[i] || l->notes[i].what != what || l->notes[i].kind != kind)
			continue;
		l->used[i] = 1;
		return l->notes[i].value;
	}
	if (!l->nr_missing++) {
		l->missing.what = what;
		l->missing.kind = kind;
	}
	return 0;
}

static u64 wl_noted(const volatile void *at, u32 size)
{
	u32 what = (u32)((const volatile u8 *)at - (const volatile u8 *)wl_now);
	u64 value;

	if (wl_now->replays)
		return wl_find_note(what, WL_NOTE_READ);
	if (size == 2)
		value = *(const volatile u16 *)at;
	else if (size == 4)
		value = *(const volatile u32 *)at;
	else
		value = *(const volatile u64 *)at;
	wl_append(what, WL_NOTE_READ, value);
	return value;
}

static u32 wl_logged_claim(u32 cpu)
{
	u64 *word = &wl_now->idle_mask[cpu / 64 & (WL_MASK_WORDS - 1)], bit = 1ULL << (cpu & 63);
	u32 claimed;

	if (wl_now->replays)
		return wl_find_note(cpu, WL_NOTE_CLAIM);
	claimed = (*word & bit) != 0;
	*word &= ~bit;
	wl_append(cpu, WL_NOTE_CLAIM, claimed);
	return claimed;
}

/* Notes whether a record exists, and returns it if so; it is at `record`. */
static void *wl_logged_lookup(u32 what, u32 kind, u32 exists, void *record)
{
	u64 at = (u8 *)record - (u8 *)wl_now;

	if (wl_now->replays)
		exists = exists && wl_find_note(what, kind);
	else
		wl_append(what, kind, exists ? 1ULL << 32 | (u32)at : 0);
	return exists ? record : 0;
}

static struct wl_group *wl_logged_group(u32 slot)
{
	u32 exists = slot < wl_now->policy.params.nr_groups;

	return wl_logged_lookup(slot, WL_NOTE_GROUP, exists, &wl_now->groups[exists ? slot : 0]);
}

static struct wl_group_cpu *wl_logged_group_cpu(u32 slot, u32 cpu)
{
	u32 nr_cpus = wl_now->policy.topo.nr_cpus, index = slot * nr_cpus + cpu;
	u32 exists = slot < wl_now->policy.params.nr_groups && cpu < nr_cpus;

	return wl_logged_lookup(index, WL_NOTE_GROUP_CPU, exists,
				&wl_now->group_cpus[exists ? index : 0]);
}

/* ------------------------------------------------------------------ for src/logged.rs */

static u64 wl_logged_place(struct wl_logged *l, u64 nr_cpus, u64 nr_groups, u64 nr_tasks)
{
	u64 line = WL_CACHE_LINE;
	u64 groups = (sizeof(struct wl_logged) + line - 1) / line * line;
	u64 group_cpus = groups + nr_groups * sizeof(struct wl_group);
	u64 tasks = group_cpus + nr_groups * nr_cpus * sizeof(struct wl_group_cpu);

	if (l) {
		l->groups = (struct wl_group *)((u8 *)l + groups);
		l->group_cpus = (struct wl_group_cpu *)((u8 *)l + group_cpus);
		l->tasks = (struct wl_task *)((u8 *)l + tasks);
	}
	return tasks + nr_tasks * sizeof(struct wl_task);
}

u64 wl_logged_size(u32 nr_cpus, u32 nr_groups, u32 nr_tasks)
{
	return wl_logged_place(0, nr_cpus, nr_groups, nr_tasks);
}

/* Called when params and topology are filled in and the rest is zero. */
void wl_logged_init(struct wl_logged *l)
{
	wl_now = l;
	wl_logged_place(l, l->policy.topo.nr_cpus, l->policy.params.nr_groups, 0);
	wl_init(&l->policy);
	wl_now = 0;
}

/*
 * The offsets in the instance of a task's record, a group's record, and a group's record of a CPU.
 */
u64 wl_logged_task_at(struct wl_logged *l, u32 task)
{
	return (u8 *)&l->tasks[task] - (u8 *)l;
}

u64 wl_logged_groups_at(struct wl_logged *l, u32 of_cpus)
{
	return of_cpus ? (u8 *)l->group_cpus - (u8 *)l : (u8 *)l->groups - (u8 *)l;
}

void wl_logged_set_idle(struct wl_logged *l, u32 cpu, u32 idle)
{
	u64 *word = &l->idle_mask[cpu / 64 & (WL_MASK_WORDS - 1)], bit = 1ULL << (cpu & 63);

	*word = idle ? *word | bit : *word & ~bit;
}

u32 wl_logged_is_idle(struct wl_logged *l, u32 cpu)
{
	return l->idle_mask[cpu / 64 & (WL_MASK_WORDS - 1)] >> (cpu & 63) & 1;
}

/*
 * Applies one event to the instance's tasks of these numbers; ~0: none. Live if `used` is null:
 * notes has room for max_notes. Else replayed from nr_notes notes; used has a zero byte for each.
 * event.h says what is read of the answer.
 */
void wl_logged_apply(struct wl_logged *l, const struct wl_event *event, u32 task, u32 waker,
		     struct wl_note *notes, u8 *used, u32 max_notes, union wl_answer *answer,
		     struct wl_logged_found *found)
{
	struct wl_task *t = task == ~0u ? 0 : &l->tasks[task];
	struct wl_task *w = waker == ~0u ? 0 : &l->tasks[waker];

	l->notes = notes;
	l->used = used;
	l->replays = used != 0;
	l->max_notes = max_notes;
	l->nr_notes = used ? max_notes : 0;
	l->first_unused = 0;
	l->nr_missing = 0;
	l->cut = 0;
	wl_now = l;
	wl_apply(&l->policy, event, t, w, answer);
	wl_now = 0;
	while (used && l->first_unused < l->nr_notes && used[l->first_unused])
		l->first_unused++;
	found->nr_notes = l->nr_notes;
	found->first_unused = l->first_unused;
	found->nr_missing = l->nr_missing;
	found->cut = l->cut;
	found->missing = l->missing;
}
