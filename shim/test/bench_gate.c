/*
 * Measures how long a call takes that passes the open gate, beside the same call without
 * it: by the thread's processor time, of the fastest tenth of many loops.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "memory/gate.h"

enum { CALLS = 300000, LOOPS = 201, FASTEST = LOOPS / 10 };

static int callee(int a) { return a + 1; }
static int (*volatile function)(int) = callee;

__attribute__((noinline)) static int direct(int a) { return function(a); }

__attribute__((noinline)) static int gated(int a)
{
	enum gw_pass pass = gw_gate_enter();

	if (pass == GW_SHUT)
		return 0;
	int r = function(a);
	if (pass == GW_INSIDE)
		gw_gate_leave();
	return r;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double time_of(int (*f)(int))
{
	double began = now();

	for (int i = 0; i < CALLS; i++)
		f(i);
	return (now() - began) / CALLS;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void wake(void) {}

int main(void)
{
	static double without[LOOPS], with[LOOPS];

	gw_gate_begin(60000, wake);
	for (int i = 0; i < LOOPS; i++) {
		without[i] = time_of(direct);
		with[i] = time_of(gated);
	}
	qsort(without, LOOPS, sizeof *without, compare);
	qsort(with, LOOPS, sizeof *with, compare);
	printf("a call %.2f ns, through the gate %.2f ns: %.2f ns more\n", without[FASTEST],
	       with[FASTEST], with[FASTEST] - without[FASTEST]);
	return 0;
}
