/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * host/seen.h - what the native host saw of one call: which reads of other CPUs' state were hits,
 * and what its writes waited for. host/lines.h fills it; the simulator charges for it.
 */
#ifndef WL_HOST_SEEN_H
#define WL_HOST_SEEN_H

#include "state.h"

/* The greatest number of updated lines that a call reports; nothing is known of more. */
#define WL_SEEN_UPDATES 15
/* The greatest number of search steps that a call reports. */
#define WL_SEEN_STEPS 8

/* A step of an idle search that began, the number of reads before it, and what they cost. */
struct wl_seen_step {
	u32 step; /* enum wl_step */
	u32 reads;
	u64 ps;
};

/* The longest wait of a call's writes for other holders. */
struct wl_seen_taken {
	/* The distance of the farthest holder; WL_DIST_CPU if there was no other. */
	u32 from;
	/* The distance from which a counted miss fetched that line; else WL_DIST_CPU. */
	u32 had;
};

/*
 * What one call read and updated since the last wl_lines_begin(). Array elements beyond the counts
 * are stale.
 */
struct wl_seen {
	struct wl_reads hits;	/* reads of lines that no other CPU wrote since this one had them */
	struct wl_reads misses; /* all other reads */
	u64 ps;			/* what they cost together, at the prices that the host was given */
	struct wl_seen_taken taken; /* what its writes waited for */
	u32 nr_updated;
	u32 nr_steps;
	u32 updated[WL_SEEN_UPDATES];	   /* numbers of lines, where WL_LINE_COUNTER is 0 */
	u32 updated_from[WL_SEEN_UPDATES]; /* the distance of the farthest other holder of each */
	struct wl_seen_step steps[WL_SEEN_STEPS];
};

#endif /* WL_HOST_SEEN_H */
