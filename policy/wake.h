/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * wake.h - the axis `affine`: whether a wake-up pulls the wakee to the CPU where it happens.
 */
#ifndef WL_WAKE_H
#define WL_WAKE_H

#include "wake_flips.h"
#include "wake_wide.h"

/* A waker wakes a task that may run on one CPU only, so there is nothing to choose. */
WL_INLINE void wl_affine_pinned(struct wl_policy *p, struct wl_task *waker,
				const struct wl_task *wakee, u64 now_ns)
{
	if (wl_axis(p, affine) == WL_AFFINE_FLIPS && waker)
		wl_record_wakee(p, waker, wakee, now_ns);
}

/* Returns the CPU near which to search, this or prev, and says why. waker may be null. */
WL_INLINE u32 wl_affine_target(struct wl_policy *p, const struct wl_search *s,
			       const struct wl_task *t, struct wl_task *waker,
			       struct wl_decision *out)
{
	if (wl_axis(p, affine) == WL_AFFINE_OFF) {
		out->affine_reason = WL_AFFINE_DISABLED;
		return s->prev;
	}
	if (wl_axis(p, affine) != WL_AFFINE_ALWAYS && waker)
		wl_record_wakee(p, waker, t, s->now_ns);
	if (wl_axis(p, affine) == WL_AFFINE_WIDE)
		return wl_affine_wide(p, s, t, waker, out);
	if (wl_axis(p, affine) == WL_AFFINE_FLIPS && waker && wl_flips_stays(p, s, t, waker)) {
		out->affine_reason = WL_AFFINE_TOO_WIDE;
		return s->prev;
	}
	return wl_affine_always(p, s, t, waker, out);
}

#endif /* WL_WAKE_H */
