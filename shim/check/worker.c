/*
 * A program on the GPU that reads orders, one on each line. It holds one block of memory and
 * answers each order with a line of JSON, which is {"error": "..."} if the order failed.
 *
 *   alloc BYTES       {}, makes the block
 *   free              {}
 *   fill SEED         {"ns": time, "speed": GB/s}
 *   work PASSES       {"ns": time, "speed": GB/s}
 *   check             {"mismatches": wrong words, "ns": time, "speed": GB/s}
 *   graph             {"ns": time}, records a pass as a graph
 *   replay TIMES      {"ns": time} of so many launches of the graph
 *   info              {"free": bytes, "total": bytes}
 *   fft BYTES PASSES  {"ns": time} on a block of its own
 *   gemm ROWS TIMES   {"ns": time} on matrices of its own
 *   loop LAUNCHES     {"ns": time} of so many kernels of little work
 *   take BYTES MORE   {"given": 1, "refused": 0} if the driver allocates so much memory,
 *                     which is freed at once; {"given": 0, "refused": 1} if not
 *   hold BYTES        the same for a second block, which is written and kept; "note": why not
 *   leave BYTES       {"held": bytes} that were allocated to leave so much free
 *   copy BYTES        {"in": GB/s, "out": GB/s} of a copy of pinned memory each way
 *   pin               {}, all threads to the last core that they may use
 *   scale NS ORDER    {"times": how often the order fits into the time}; its last number is
 *                     left out
 *
 * Its first line, without an order, describes the device.
 */
#include <dirent.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

static struct block block, second;
static bool quiet; /* answers are kept back */

/* Replace the characters that JSON would have to escape. */
static const char *plain(char *text)
{
	for (char *c = text; *c; c++)
		if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
			*c = ' ';
	return text;
}

static void answer(const char *format, ...)
{
	va_list args;

	if (quiet)
		return;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

static void refuse(void) { answer("{\"error\": \"%s\"}", plain(trouble)); }

static void fail(const char *why)
{
	snprintf(trouble, sizeof trouble, "%s", why);
	refuse();
}

static void done(bool ok)
{
	if (ok)
		answer("{}");
	else
		refuse();
}

static void timed(bool ok, int64_t began)
{
	if (ok)
		answer("{\"ns\": %lld}", (long long)(now() - began));
	else
		refuse();
}

/* Answer an order that went over the whole block. */
static void passed(bool ok, int64_t began, uint64_t passes)
{
	int64_t ns = now() - began;

	if (ok)
		answer("{\"ns\": %lld, \"speed\": %.3f}", (long long)ns,
		       (double)(block.bytes * passes) / (double)ns);
	else
		refuse();
}

static void hello(void)
{
	struct about a;

	if (!device_open() || !device_about(&a)) {
		refuse();
		exit(1);
	}
	answer("{\"device\": \"%s\", \"bus\": \"%s\", \"driver\": %d, \"capability\": \"%d.%d\", "
	       "\"processors\": %d, \"managed\": %d, \"concurrent\": %d, "
	       "\"free\": %zu, \"total\": %zu}",
	       plain(a.name), plain(a.bus), a.driver, a.major, a.minor, a.processors, a.managed,
	       a.concurrent, a.avail, a.total);
}

static void check(void)
{
	uint64_t wrong;
	int64_t began = now();
	bool ok = block_check(&block, &wrong);
	int64_t ns = now() - began;

	if (ok)
		answer("{\"mismatches\": %llu, \"ns\": %lld, \"speed\": %.3f}",
		       (unsigned long long)wrong, (long long)ns, (double)block.bytes / (double)ns);
	else
		refuse();
}

/* Answer orders that may be refused. */
static void taken(bool ok)
{
	answer("{\"given\": %d, \"refused\": %d}", ok, !ok);
}

static void held(bool ok)
{
	if (ok)
		taken(ok);
	else
		answer("{\"given\": 0, \"refused\": 1, \"note\": \"refused by the driver: %s\"}",
		       plain(trouble));
}

static void leave(uint64_t bytes)
{
	size_t avail, total;

	if (!device_memory(&avail, &total))
		refuse();
	else if (avail <= bytes)
		answer("{\"held\": 0}");
	else if (block_plain(&second, avail - bytes))
		answer("{\"held\": %llu}", (unsigned long long)second.bytes);
	else
		refuse();
}

static void info(void)
{
	size_t avail, total;

	if (device_memory(&avail, &total))
		answer("{\"free\": %zu, \"total\": %zu}", avail, total);
	else
		refuse();
}

static void copies(uint64_t bytes)
{
	int64_t in, out;

	if (copy(bytes, &in, &out))
		answer("{\"in\": %.3f, \"out\": %.3f}", (double)bytes / (double)in,
		       (double)bytes / (double)out);
	else
		refuse();
}

/* Keep a block of this size for a workload. */
static bool kept(struct block *b, uint64_t bytes)
{
	if (b->at && b->bytes == bytes)
		return true;
	return (!b->at || block_free(b)) && block_make(b, bytes) && block_fill(b, 1);
}

static void workload(const char *verb, uint64_t a, uint64_t b)
{
	static struct block fft, tiny;
	bool loop = verb[0] == 'l', ok;

	if (verb[0] == 'g') {
		int64_t start = now();
		timed(gemm((unsigned)a, (unsigned)b), start);
		return;
	}
	ok = loop ? kept(&tiny, 4096) : kept(&fft, a & ~(uint64_t)3);
	int64_t began = now();
	timed(ok && block_work(loop ? &tiny : &fft, (unsigned)(loop ? a : b)), began);
}

/* Programs that run in turns are compared, and the cores of a virtual machine differ by half,
 * because their neighbours may be busy. */
static void pin(void)
{
	cpu_set_t own, last;
	DIR *threads = opendir("/proc/self/task");

	sched_getaffinity(0, sizeof own, &own);
	for (int core = 0; core < CPU_SETSIZE; core++)
		if (CPU_ISSET(core, &own)) {
			CPU_ZERO(&last);
			CPU_SET(core, &last);
		}
	for (struct dirent *t; threads && (t = readdir(threads));)
		if (atoi(t->d_name))
			sched_setaffinity(atoi(t->d_name), sizeof last, &last);
	closedir(threads);
	answer("{}");
}

static bool is(const char *verb, const char *word) { return strcmp(verb, word) == 0; }

static void on_block(const char *verb, uint64_t n)
{
	int64_t began = now();

	if (is(verb, "fill"))
		passed(block_fill(&block, (uint32_t)n), began, 1);
	else if (is(verb, "work"))
		passed(block_work(&block, (unsigned)n), began, n);
	else if (is(verb, "graph"))
		timed(block_graph(&block), began);
	else if (is(verb, "replay"))
		timed(block_replay(&block, (unsigned)n), began);
	else if (is(verb, "check"))
		check();
	else if (is(verb, "free"))
		done(block_free(&block));
	else
		fail("unknown order");
}

static void execute(const char *verb, uint64_t a, uint64_t b)
{
	if (is(verb, "alloc"))
		done(block_make(&block, a));
	else if (is(verb, "info"))
		info();
	else if (is(verb, "take"))
		taken(block_taken(a + b));
	else if (is(verb, "hold"))
		held(block_make(&second, a) && block_fill(&second, 1));
	else if (is(verb, "leave"))
		leave(a);
	else if (is(verb, "pin"))
		pin();
	else if (is(verb, "copy"))
		copies(a);
	else if (is(verb, "fft") || is(verb, "gemm") || is(verb, "loop"))
		workload(verb, a, b);
	else if (!block.at)
		fail("there is no block");
	else
		on_block(verb, a);
}

/* Carry out an order and return its time. An error is kept in trouble. */
static int64_t silent(const char *verb, uint64_t a, uint64_t b)
{
	int64_t began = now();

	quiet = true;
	execute(verb, a, b);
	quiet = false;
	return now() - began;
}

static void scale(const char *line)
{
	unsigned long long want, a;
	char verb[32];
	bool sized = sscanf(line, "%*s %llu %31s %llu", &want, verb, &a) == 3;
	uint64_t n = 1;
	int64_t took;

	trouble[0] = 0;
	silent(verb, sized ? a : n, n); /* loads the kernels */
	while ((took = silent(verb, sized ? a : n, n)) < (int64_t)want / 4 && n < 1 << 20)
		n *= 4;
	for (int i = 0; i < 2; i++) { /* the machine may have been busy */
		int64_t again = silent(verb, sized ? a : n, n);
		took = again < took ? again : took;
	}
	if (trouble[0])
		refuse();
	else
		answer("{\"times\": %llu}", 1 + n * want / (uint64_t)(took + 1));
}

int main(void)
{
	char line[128], verb[32];

	hello();
	while (fgets(line, sizeof line, stdin)) {
		unsigned long long a = 0, b = 0;
		if (sscanf(line, "%31s %llu %llu", verb, &a, &b) < 1)
			continue;
		if (is(verb, "scale"))
			scale(line);
		else
			execute(verb, a, b);
	}
	return 0;
}
