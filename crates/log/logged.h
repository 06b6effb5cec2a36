/* SPDX-License-Identifier: GPL-2.0-or-later */
/* logged.h - what logged.c reports to Rust about a call. */
#ifndef WL_LOGGED_H
#define WL_LOGGED_H

#include "host/log_record.h"

/* What a call read: see struct wl_logged. */
struct wl_logged_found {
	u32 nr_notes;
	u32 first_unused; /* replayed: the first note that was not asked for; nr_notes if all were */
	u32 nr_missing;	  /* replayed: reads for which the record has no note */
	u32 cut;	  /* live: 1 if there was no room for a note */
	struct wl_note missing; /* the first of the missing ones, without a value */
};

#endif /* WL_LOGGED_H */
