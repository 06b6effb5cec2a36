// SPDX-License-Identifier: GPL-2.0-or-later
// A sum in 1,000 parallel loops; each begins and ends with a barrier.
#include <stdio.h>

int main(void)
{
	double sum = 0;

	for (int round = 0; round < 1000; round++) {
#pragma omp parallel for reduction(+ : sum)
		for (int i = 0; i < 100000; i++)
			sum += 1.0 / (i + round + 1);
	}
	printf("%f\n", sum);
	return 0;
}
