/* SPDX-License-Identifier: GPL-2.0-or-later */
/* core.h - what a host includes: the interface and every file that implements it. */
