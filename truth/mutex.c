// SPDX-License-Identifier: GPL-2.0-or-later
// Four threads that each work half of their time with a mutex, and half without.
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, ROUNDS = 6000, STEPS = 5000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static double work(int first)
{
	double sum = 0;

	for (int i = first; i < first + STEPS; i++)
		sum += 1.0 / i;
	return sum;
}

static void *run(void *result)
{
	double sum = 0;

	for (int round = 0; round < ROUNDS; round++) {
		pthread_mutex_lock(&mutex);
		sum += work(1);
		pthread_mutex_unlock(&mutex);
		sum += work(2);
	}
	*(double *)result = sum;
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	double sums[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, &sums[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%f\n", sums[0] + sums[1] + sums[2] + sums[3]);
	return 0;
}
