/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * random.h - numbers that look random, made from a counter, because the policy has no source of
 * randomness.
 */
#ifndef WL_RANDOM_H
#define WL_RANDOM_H

#include "base.h"

/*
 * Mixes a counter so that neighbouring values have nothing in common: multiplies by 2^32 / golden
 * ratio, then brings the good upper bits down. 0 stays 0.
 */
WL_INLINE u32 wl_mix(u32 counter)
{
	counter *= 0x9e3779b1u;
	counter ^= counter >> 15;
	counter *= 0x85ebca6bu;
	counter ^= counter >> 13;
	return counter;
}

#endif /* WL_RANDOM_H */
