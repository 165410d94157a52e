/*
 * A program on the GPU that reads orders, one on each line. It answers each with a line of
 * JSON, which is {"error": "..."} if the order failed.
 *
 *   alloc BYTES            {"block": its number}
 *   free BLOCK             {}
 *   fill BLOCK SEED        {"ns": time}
 *   work BLOCK PASSES      {"ns": time}
 *   check BLOCK            {"mismatches": wrong words, "words": all, "ns": time}
 *   graph BLOCK            {"ns": time}, records a pass as a graph
 *   replay BLOCK TIMES     {"ns": time} of so many launches of the block's graph
 *   info                   {"free": bytes, "total": bytes}
 *   fft BYTES PASSES       {"ns": time} on a block of its own
 *   gemm ROWS TIMES        {"ns": time} on matrices of its own
 *   loop LAUNCHES          {"ns": time} of so many kernels of little work
 *   take BYTES             {"took": 1} if the driver allocates so much memory, which is
 *                          freed at once; 0 if not
 *   copy BYTES             {"in": ns, "out": ns} of a copy of pinned memory each way
 *
 * Its first line, without a command, describes the device.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

enum { BLOCKS = 64 };

static struct block blocks[BLOCKS];
static unsigned used;

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

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

static void refuse(void) { answer("{\"error\": \"%s\"}", plain(trouble)); }

static void timed(bool ok, int64_t began)
{
	if (ok)
		answer("{\"ns\": %lld}", (long long)(now() - began));
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

static void make(uint64_t bytes)
{
	if (used == BLOCKS)
		snprintf(trouble, sizeof trouble, "more than %d blocks", BLOCKS);
	else if (block_make(&blocks[used], bytes)) {
		answer("{\"block\": %u}", used++);
		return;
	}
	refuse();
}

static void check(struct block *b)
{
	uint64_t wrong;
	int64_t began = now();

	if (block_check(b, &wrong))
		answer("{\"mismatches\": %llu, \"words\": %llu, \"ns\": %lld}",
		       (unsigned long long)wrong, (unsigned long long)b->words,
		       (long long)(now() - began));
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
		answer("{\"in\": %lld, \"out\": %lld}", (long long)in, (long long)out);
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

static bool is(const char *verb, const char *word) { return strcmp(verb, word) == 0; }

static void on_block(const char *verb, struct block *b, uint64_t n)
{
	int64_t began = now();

	if (is(verb, "fill"))
		timed(block_fill(b, (uint32_t)n), began);
	else if (is(verb, "work"))
		timed(block_work(b, (unsigned)n), began);
	else if (is(verb, "graph"))
		timed(block_graph(b), began);
	else if (is(verb, "replay"))
		timed(block_replay(b, (unsigned)n), began);
	else if (is(verb, "check"))
		check(b);
	else if (block_free(b))
		answer("{}");
	else
		refuse();
}

static const char *spaced(const char *verb)
{
	static char text[40];

	snprintf(text, sizeof text, " %s ", verb);
	return text;
}

static void execute(const char *verb, uint64_t a, uint64_t b)
{
	if (is(verb, "alloc"))
		make(a);
	else if (is(verb, "info"))
		info();
	else if (is(verb, "take"))
		answer("{\"took\": %d}", block_taken(a));
	else if (is(verb, "copy"))
		copies(a);
	else if (is(verb, "fft") || is(verb, "gemm") || is(verb, "loop"))
		workload(verb, a, b);
	else if (!strstr(" fill work check graph replay free ", spaced(verb)))
		answer("{\"error\": \"unknown: %.20s\"}", verb);
	else if (a >= used || !blocks[a].at)
		answer("{\"error\": \"no such block\"}");
	else
		on_block(verb, &blocks[a], b);
}

int main(void)
{
	char line[128], verb[32];

	hello();
	while (fgets(line, sizeof line, stdin)) {
		unsigned long long a = 0, b = 0;
		if (sscanf(line, "%31s %llu %llu", verb, &a, &b) >= 1)
			execute(verb, a, b);
	}
	return 0;
}
