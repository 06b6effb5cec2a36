/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hammer.h - part of parity.bpf.c: two threads on one state. */

/*
 * Each thread plays the kernel for its own CPUs (those whose number is congruent to it), so that
 * every group has CPUs of both threads. Only their own thread flips them between busy and idle and
 * runs tasks on them. A thread queues its own tasks anywhere, and its searches claim any CPU. The
 * idle mask's bits are tokens: a search that claims one, or a CPU that takes one when it turns
 * busy, gives it back once. src/hammer.rs checks what must hold afterwards.
 */
struct parity_hammer_args {
	u64 seed;
	u64 now_ns;
	u32 nr_threads;
	u32 nr_rounds;
	u32 nr_cpus;
	u32 unused;
	/* answers */
	u64 flips;
	u64 searches;
	u64 claims;
	u64 lost_claims;
	u64 doubled; /* a token was given back that was already there */
	u64 moves;   /* steps of tasks */
};

#define HAMMER_TASKS 64 /* of a thread, from tasks[thread * HAMMER_TASKS] on */

struct parity_hammer_cpu { /* touched by the CPU's own thread only */
	u32 busy;
	u32 token;	/* this CPU took its own token from the mask when it became busy */
	u32 running;	/* 1 + index of the task that runs here */
	u32 unused[13]; /* a line per CPU */
};

#define HAMMER_THREADS 2 /* a power of two */

struct parity_hammer_args hammer_args[HAMMER_THREADS];
struct parity_hammer_cpu hammer_cpu[WL_MAX_CPUS];
struct wl_decision
	hammer_decision[HAMMER_THREADS * 16]; /* a thread's is at 16 * thread: lines apart */
struct wl_select_in hammer_select[HAMMER_THREADS * 16]; /* no stack is left for it */
struct wl_enqueue_out hammer_enqueue[HAMMER_THREADS * 16];

static __always_inline u64 next_random(u64 *state)
{
	u64 x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	return x;
}

static __always_inline struct parity_hammer_cpu *hammer_cpu_at(u32 cpu)
{
	return &hammer_cpu[cpu_at(cpu)];
}

/* Turns a CPU of the calling thread from idle to busy or back. Returns 1 if a token was doubled. */
__noinline int hammer_flip(u32 cpu, u64 now_ns)
{
	struct parity_hammer_cpu *h = hammer_cpu_at(cpu);

	if (!h->busy) {
		h->busy = 1;
		h->token = token_take(cpu);
		wl_busy(&wl_memory.policy, cpu, now_ns);
		if (parity_fault == FAULT_COUNTER && (now_ns & 4095) == 0)
			wl_atomic_add(&wl_memory.policy.counter[0].busy, 1);
		return 0;
	}
	h->busy = 0;
	wl_idle(&wl_memory.policy, cpu, now_ns);
	if (!h->token)
		return 0;
	h->token = 0;
	return token_give(cpu);
}

__noinline int hammer_search(u32 thread, u32 this_cpu, u32 prev_cpu, u32 task, u64 now_ns)
{
	struct wl_decision *d = &hammer_decision[(thread & (HAMMER_THREADS - 1)) * 16];
	struct wl_select_in *in = &hammer_select[(thread & (HAMMER_THREADS - 1)) * 16];

	in->this_cpu = this_cpu;
	in->prev_cpu = prev_cpu;
	in->flags = (now_ns & 16) ? WL_WAKE_SYNC : 0;
	in->now_ns = now_ns;
	wl_select(&wl_memory.policy, in, task_at(task), 0, d);
	return 0;
}

/* A sleeping task is queued somewhere; a queued task runs on own_cpu if that is free. */
__noinline int hammer_task(u32 thread, u32 task, u32 own_cpu, u32 any_cpu, u64 now_ns)
{
	struct parity_hammer_cpu *h = hammer_cpu_at(own_cpu);
	struct wl_task *t = task_at(task);
	u32 place = t->place;

	if (place == WL_PLACE_NONE) {
		struct wl_enqueue_in in = {
			.cpu = any_cpu,
			.why = WL_ENQ_WAKEUP,
			.this_cpu = own_cpu,
			.now_ns = now_ns,
		};

		wl_enqueue(&wl_memory.policy, t, &in,
			   &hammer_enqueue[(thread & (HAMMER_THREADS - 1)) * 16]);
	} else if (place == WL_PLACE_QUEUED && !h->running) {
		h->running = task + 1;
		wl_running(&wl_memory.policy, t, own_cpu, now_ns);
	}
	return 0;
}

/* The task that runs on own_cpu stops, and sleeps. */
__noinline int hammer_stop(u32 own_cpu, u64 now_ns)
{
	struct parity_hammer_cpu *h = hammer_cpu_at(own_cpu);
	struct wl_task *t;

	if (!h->running)
		return 0;
	t = task_at(h->running - 1);
	h->running = 0;
	if (parity_fault == FAULT_TOTAL && (now_ns & 63) == 0)
		wl_atomic_add(&wl_memory.policy.cpu[cpu_at(own_cpu)].total, 1);
	wl_stopping(&wl_memory.policy, t, own_cpu, now_ns, 0);
	wl_quiescent(&wl_memory.policy, t, now_ns);
	return 0;
}

struct parity_hammer_ctx {
	u32 thread;
	u32 unused;
};

SEC("syscall")
int parity_hammer(struct parity_hammer_ctx *ctx)
{
	u32 thread = ctx->thread & (HAMMER_THREADS - 1);
	struct parity_hammer_args *args = &hammer_args[thread];
	u64 now_ns, r;
	u32 nr_threads = args->nr_threads, nr_cpus = args->nr_cpus, nr = args->nr_rounds;
	u32 i, own, any, task;

	if (!nr_threads || !nr_cpus)
		return -1;
	/* Kept in place, because locals of this loop would cost stack. */
	args->flips = 0;
	args->searches = 0;
	args->claims = 0;
	args->lost_claims = 0;
	args->doubled = 0;
	args->moves = 0;
	wl_for (i, 0, nr) {
		r = next_random(&args->seed);
		now_ns = args->now_ns + (r & 1023);
		args->now_ns = now_ns;
		any = (u32)(r >> 32) % nr_cpus;
		own = any - any % nr_threads + thread;
		task = thread * HAMMER_TASKS + (u32)((r >> 10) % HAMMER_TASKS);
		if (own >= nr_cpus)
			continue;
		switch ((r >> 20) & 7) {
		case 0:
		case 1:
		case 2:
			args->doubled += hammer_flip(own, now_ns);
			args->flips++;
			break;
		case 3:
		case 4:
		case 5: {
			struct wl_decision *d =
				&hammer_decision[(thread & (HAMMER_THREADS - 1)) * 16];

			hammer_search(thread, own, any, task, now_ns);
			args->searches++;
			args->lost_claims += d->lost_claims;
			if (d->claimed) {
				args->claims++;
				if (parity_fault == FAULT_CLAIM && (r & 4095) == 0)
					break;
				args->doubled += token_give(d->cpu);
			}
			break;
		}
		case 6:
			hammer_task(thread, task, own, any, now_ns);
			args->moves++;
			break;
		case 7:
			hammer_stop(own, now_ns);
			args->moves++;
			break;
		}
	}
	return 0;
}
