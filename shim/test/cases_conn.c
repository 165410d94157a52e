/*
 * Faults of the connection to the invoker, and the connection's cost.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "prog.h"

enum { MIB = 1 << 20 };

static int begin(void)
{
	invoker_listen();
	cuda_open("dlsym");
	return invoker_accept();
}

/* The invoker goes and comes back: memory works meanwhile, then it is reported. */
static void loss(int argc, char **argv)
{
	CUdeviceptr p;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, 4 * MIB));
	invoker_send(c, GW_EVICT, 900, 0, 0);
	close(c);
	invoker_close_listener();
	pattern_write(p, 4 * MIB, 6);
	invoker_listen();
	c = invoker_accept();
	SAME(invoker_report(c).number[ALLOCATED], 4 * MIB);
	/* A new invoker counts its epochs from the start. */
	SAME(invoker_move(c, GW_EVICT, 1).word[STATUS], GW_OK);
	pattern_check(p, 4 * MIB, 6);
}

/* Half a frame, then the end. */
static void torn(int argc, char **argv)
{
	uint8_t half[10] = {32, 0, 0, 0, GW_EVICT};
	int c = begin();

	invoker_send_raw(c, half, sizeof half);
	close(c);
	c = invoker_accept();
	invoker_report(c);
}

/* A malformed frame ends the connection, not the program. */
static void malformed(int argc, char **argv)
{
	static const uint8_t bad[][20] = {
		{0}, {15}, {0xff, 0xff, 0xff, 0xff}, {1, 1}, {16, 0, 0, 0, GW_EVICT},
		{20, 0, 0, 0, GW_PREFETCH, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
	};
	CUdeviceptr p;
	struct shim_frame s;
	int c = begin();

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		invoker_send_raw(c, bad[i], sizeof bad[i]);
		CHECK(!invoker_receive_or_end(c, GW_DONE, &s));
		close(c);
		c = invoker_accept();
	}
	OK(cu.cuMemAlloc_v2(&p, MIB));
	invoker_send(c, 999, 1, 2, 3); /* unknown, but a frame: passed over */
	SAME(invoker_move(c, GW_EVICT, 1).number[MOVED], MIB);
}

/* An invoker that asks and never reads: the shim gives up on it, not the
 * program, and comes again. */
static void full(int argc, char **argv)
{
	static const uint8_t ping[16] = {16, 0, 0, 0, GW_PING};
	CUdeviceptr p;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, MIB));
	pattern_write(p, MIB, 3);
	/* Both sides fill, and after a second with full buffers it hangs up. */
	for (int waits = 0; waits < HANG_MS; waits++) {
		while (send(c, ping, sizeof ping, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
			;
		if (errno != EAGAIN)
			break;
		usleep(1000);
	}
	pattern_check(p, MIB, 3);
	int again = invoker_accept();
	SAME(invoker_report(again).number[ALLOCATED], MIB);
	SAME(invoker_move(again, GW_EVICT, 1).number[MOVED], MIB);
	close(c);
}

/* A listener with a queue that is full: the program works, the shim waits. */
static void backlog(int argc, char **argv)
{
	CUdeviceptr p;
	int waiting[8];

	invoker_listen();
	int n = invoker_fill(waiting, 8);
	cuda_open("dlsym");
	OK(cu.cuMemAlloc_v2(&p, MIB));
	pattern_write(p, MIB, 3);
	pattern_check(p, MIB, 3);
	while (n-- > 0) {
		int c = invoker_accept_within(HANG_MS);
		CHECK(c >= 0);
		close(c);
		close(waiting[n]);
	}
	SAME(invoker_report(invoker_accept()).number[ALLOCATED], MIB);
}

/* Random frames: read a seed, send the frames made from it, stay alive. */
static void noise(int argc, char **argv)
{
	unsigned seed = argc ? (unsigned)atoi(argv[0]) : 1;
	CUdeviceptr p;
	int c = begin();

	for (int round = 0; round < 200; round++) {
		uint8_t buf[64];
		for (size_t i = 0; i < sizeof buf; i++)
			buf[i] = (uint8_t)rand_r(&seed);
		buf[0] = (uint8_t)(16 + rand_r(&seed) % 40);
		if (rand_r(&seed) % 4)
			buf[1] = buf[2] = buf[3] = 0, buf[4] = 2 + buf[4] % 6, buf[5] = 0;
		if (send(c, buf, sizeof buf, MSG_NOSIGNAL) < 0 || round % 20 == 19) {
			close(c);
			while ((c = invoker_accept_within(HANG_MS)) < 0)
				;
		}
	}
	close(c);
	c = invoker_accept();
	invoker_send(c, GW_LIMIT, 0, 0, 0);
	invoker_report(c);
	OK(cu.cuMemAlloc_v2(&p, MIB));
}

/* Another version: the program goes on, the shim does not come again. */
static void version(int argc, char **argv)
{
	CUdeviceptr p;
	struct shim_frame s;

	invoker_listen();
	cuda_open("dlsym");
	int c = invoker_accept_within(HANG_MS);
	invoker_hello(c, GW_VERSION + 1);
	CHECK(!invoker_receive_or_end(c, GW_DONE, &s));
	SAME(invoker_accept_within(300), -1);
	OK(cu.cuMemAlloc_v2(&p, MIB));
	pattern_write(p, MIB, 1);
	pattern_check(p, MIB, 1);
}

/* It answers between two chunks. FAKE_CUDA_BANDWIDTH makes the whole last half a
 * minute, so it is not over by then, as its end by the run shows. */
/* It reports that it lives while a chunk is under way that takes long, without a
 * question. */
static void alive(int argc, char **argv)
{
	CUdeviceptr p;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, 8 * MIB));
	OK(cu.cuMemsetD8_v2(p, 1, 8 * MIB));
	invoker_send(c, GW_EVICT, 1, 0, 0);
	invoker_receive(c, GW_PONG);
	invoker_receive(c, GW_PONG);
	SAME(invoker_receive(c, GW_DONE).word[STATUS], GW_OK);
}

static void heartbeat(int argc, char **argv)
{
	CUdeviceptr p;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, 64 * MIB));
	OK(cu.cuMemsetD8_v2(p, 1, 64 * MIB));
	invoker_send(c, GW_EVICT, 1, 0, 0);
	invoker_receive(c, GW_ACCEPTED);
	for (uint64_t i = 42; i < 50; i++) {
		invoker_send(c, GW_PING, i, 0, 0);
		while (invoker_receive(c, GW_PONG).epoch != i)
			; /* it may report that it lives */
	}
	invoker_send(c, GW_GATE, 0, 1, 0);
	SAME(invoker_receive(c, GW_DONE).word[STATUS], GW_CANCELLED);
}

/* A program that has closed its standard descriptors, as daemons do: their numbers are
 * none of the shim's. */
static void standard_descriptors(int argc, char **argv)
{
	invoker_listen();
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	cuda_open("dlsym");
	int low = invoker_accept(), c = fcntl(low, F_DUPFD_CLOEXEC, 3);
	close(low);
	invoker_report(c);
	for (int fd = 0; fd < 3; fd++)
		SAME(fcntl(fd, F_GETFD), -1);
}

/* A program that closes all descriptors and opens its own. */
static void closes_all(int argc, char **argv)
{
	CUdeviceptr p;
	struct shim_frame s;
	char path[] = "/tmp/shimtest-XXXXXX";
	int c = begin(), files[64], n = 0;

	OK(cu.cuMemAlloc_v2(&p, MIB));
	invoker_report(c);
	for (int fd = 3; fd < 256; fd++)
		if (fd != c)
			close(fd);
	for (; n < 64; n++)
		files[n] = n ? dup(files[0]) : mkstemp(path);
	unlink(path);
	OK(cu.cuMemAlloc_v2(&p, 32 * MIB)); /* would ring the bell */
	CHECK(!invoker_receive_or_end(c, GW_PONG, &s)); /* its end was closed */
	SAME(lseek(files[0], 0, SEEK_END), 0);
}

/* No invoker listens: the program works as ever. */
static void absent(int argc, char **argv)
{
	CUdeviceptr p;

	cuda_open("dlsym");
	OK(cu.cuMemAlloc_v2(&p, MIB));
	pattern_write(p, MIB, 1);
	pattern_check(p, MIB, 1);
	OK(cu.cuMemFree_v2(p));
}

static void count(int argc, char **argv)
{
	CUdeviceptr p;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, MIB));
	struct shim_frame s = invoker_report(c);
	SAME(s.number[ALLOCATED], MIB);
	SAME(s.number[FIXED], MIB);
	s = invoker_move(c, GW_EVICT, 1);
	SAME(s.number[MOVED], 0);
	SAME(s.number[STILL_RESIDENT], MIB);
}

/* off, or no socket: whatever we hook goes to the driver as it came. */
static void untouched(int argc, char **argv)
{
	CUdeviceptr p;
	unsigned type;

	cuda_open("gpa2");
	OK(cu.cuMemAlloc_v2(&p, MIB));
	OK(cu.cuPointerGetAttribute(&type, POINTER_IS_MANAGED, p));
	SAME(type, 0);
	SAME(cu.cuMemPrefetchAsync(p, MIB, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cu.cuMemFree_v2(p));
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Returns the private memory of the process, which no file could give back, in KiB. */
static long private_kib(void)
{
	char line[256];
	long kib = 0, one;
	FILE *f = fopen("/proc/self/smaps_rollup", "r");

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "Private_Dirty: %ld", &one) == 1 ||
		    sscanf(line, "Private_Clean: %ld", &one) == 1)
			kib += one;
	if (f)
		fclose(f);
	return kib;
}

/* A change that is worth a report wakes the agent once, however much more is allocated
 * and freed until the report is due. The program would pay for each wake-up. */
static void wakes_once(int argc, char **argv)
{
	enum { ROUNDS = 20000, EACH = 20 };
	struct rusage before, after;
	struct shim_frame s;
	CUdeviceptr p;
	long reports = 0;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, 4096));
	invoker_report(c);
	getrusage(RUSAGE_SELF, &before);
	for (int i = 0; i < ROUNDS; i++) {
		OK(cu.cuMemFree_v2(p));
		OK(cu.cuMemAlloc_v2(&p, 4096));
	}
	getrusage(RUSAGE_SELF, &after);
	invoker_send(c, GW_REPORT, 7, 0, 0);
	do {
		s = invoker_receive(c, GW_USAGE);
		reports++;
	} while (s.epoch != 7);
	CHECK(after.ru_nvcsw - before.ru_nvcsw <= EACH * (reports + 1));
}

enum { PASSES = 200, CALLS = 1000 };

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void allocate_and_free(void)
{
	CUdeviceptr p;

	OK(cu.cuMemAllocManaged(&p, 4096, ATTACH_GLOBAL));
	OK(cu.cuMemFree_v2(p));
}

static void ask_for_memory(void)
{
	size_t avail, total;

	OK(cu.cuMemGetInfo_v2(&avail, &total));
}

/* Prints the nanoseconds of one call: the best, median and worst of the passes. */
static void print_cost(const char *what, void (*call)(void))
{
	static double took[PASSES];

	for (int pass = 0; pass < PASSES; pass++) {
		double from = now();
		for (int i = 0; i < CALLS; i++)
			call();
		took[pass] = (now() - from) / CALLS;
	}
	qsort(took, PASSES, sizeof *took, by_size);
	printf("\"%s_ns\":[%.0f,%.0f,%.0f],", what, took[0], took[PASSES / 2], took[PASSES - 1]);
}

/* Prints the cost of an allocation and its free with 10,000 others alive, and the memory
 * of the process before and with them. Run it with and without the shim: the difference
 * is the shim's cost. */
static void bench(int argc, char **argv)
{
	enum { LIVE = 10000 };
	static CUdeviceptr live[LIVE];
	bool shim = getenv("GPUWHISK_SHIM_SOCKET") != NULL;
	int c = -1;

	if (shim) {
		invoker_listen();
		cuda_open("dlsym");
		c = invoker_accept();
		invoker_report(c);
	} else {
		cuda_open("dlsym");
	}
	allocate_and_free();
	long idle = private_kib();
	for (int i = 0; i < LIVE; i++)
		OK(cu.cuMemAllocManaged(&live[i], 4096, ATTACH_GLOBAL));
	printf("{\"shim\":%s,", shim ? "true" : "false");
	print_cost("alloc_and_free", allocate_and_free);
	print_cost("mem_info", ask_for_memory);
	printf("\"idle_kib\":%ld,\"with_%d_kib\":%ld}\n", idle, LIVE, private_kib());
}

const struct test_case cases_conn[] = {
	{"loss", loss}, {"torn", torn}, {"malformed", malformed}, {"noise", noise},
	{"full", full}, {"backlog", backlog},
	{"version", version}, {"heartbeat", heartbeat}, {"alive", alive}, {"closes_all", closes_all},
	{"standard_descriptors", standard_descriptors},
	{"absent", absent}, {"count", count}, {"untouched", untouched},
	{"wakes_once", wakes_once}, {"bench", bench}, {NULL, NULL},
};
