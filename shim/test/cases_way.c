/*
 * The share of the link to a device that moves of memory use, by the fake driver's own
 * account: the time in which the link moved bytes, the time in which it waited for the
 * next order, and the number of orders that found it still busy. Wall time depends on the
 * machine.
 */
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prog.h"

struct way {
	const char *name;
	bool in;
	struct link link;
	double rate; /* bytes a second, by the order's own DONE */
};

/* One process: moves BYTES out, or out and in again. */
static void one_way(struct way *w, size_t bytes, int go, int ready)
{
	char c = 0;
	CUdeviceptr p;

	invoker_listen();
	cuda_open("dlsym");
	int at = invoker_accept();
	OK(cu.cuMemAlloc_v2(&p, bytes));
	OK(cu.cuMemsetD8_v2(p, 1, bytes));
	if (w->in)
		invoker_move(at, GW_EVICT, 1);
	SAME(write(ready, &c, 1), 1);
	SAME(read(go, &c, 1), 1);
	struct shim_frame s = invoker_move(at, w->in ? GW_PREFETCH : GW_EVICT, 2);
	SAME(s.number[MOVED], bytes);
	w->rate = (double)bytes / (double)s.number[NANOSECONDS] * 1e9;
	w->link = link_of(w->in);
}

/* The ways by a process each, which begin together; they share a device, by
 * FAKE_CUDA_STATE. The shim looks for its socket when CUDA begins. */
static void go_ways(struct way *ways, int n, size_t bytes)
{
	int ready[2], go[2], result[2];
	char c = 0;

	SAME(pipe(ready), 0);
	SAME(pipe(go), 0);
	SAME(pipe(result), 0);
	for (int i = 0; i < n; i++) {
		if (fork())
			continue;
		if (chdir(i ? "second" : "first"))
			_exit(2);
		ways[i].in = strcmp(ways[i].name, "out") != 0;
		one_way(&ways[i], bytes, go[0], ready[1]);
		SAME(write(result[1], &ways[i], sizeof *ways), sizeof *ways);
		_exit(0);
	}
	/* A failing process closes the pipes' other side, which ends all of this. */
	close(ready[1]);
	close(result[1]);
	for (int i = 0; i < n; i++)
		SAME(read(ready[0], &c, 1), 1);
	for (int i = 0; i < n; i++)
		SAME(write(go[1], &c, 1), 1);
	for (int i = 0; i < n; i++)
		SAME(read(result[0], &ways[i], sizeof *ways), sizeof *ways);
	while (wait(NULL) > 0)
		;
	close(ready[0]);
	close(go[0]);
	close(go[1]);
	close(result[0]);
}

static double filled(const struct link *l)
{
	return (double)l->moved_ns / (double)(l->moved_ns + l->idle_ns);
}

/* bench_link MIB WAY...: print the share of FAKE_CUDA_BANDWIDTH that the ways reach. */
static void bench_link(int argc, char **argv)
{
	double given = atof(getenv("FAKE_CUDA_BANDWIDTH"));
	struct way ways[2] = {{.name = argv[1]}, {.name = argv[argc - 1]}};
	int n = argc - 1;

	go_ways(ways, n, (size_t)atol(argv[0]) << 20);
	for (int i = 0; i < n; i++)
		printf("{\"speed\":%.0f,\"ways\":%d,\"way\":\"%s\",\"filled\":%.3f,\"orders\":%u,"
		       "\"found_it_busy\":%u,\"copied_late\":%u,\"late_s\":%.3f,\"wall\":%.3f}\n",
		       given, n, ways[i].in ? "in" : "out", filled(&ways[i].link), ways[i].link.orders,
		       ways[i].link.queued, ways[i].link.late, (double)ways[i].link.late_ns / 1e9,
		       ways[i].rate / given);
}

/* The link is used to 95 %, and most orders arrive while another is in progress. Time
 * that the fake spent on copying too long is not the shim's. */
static bool fills(const struct way *w)
{
	const struct link *l = &w->link;

	fprintf(stderr, "%s: filled %.3f, %u of %u orders found it busy, %u were copied late\n",
		w->name, filled(l), l->queued, l->orders, l->late);
	CHECK(l->orders >= 5);
	return filled(l) >= 0.95 && 2 * (l->queued + l->late) >= l->orders - 1 &&
	       l->queued;
}

/* fills_link MIB WAY...: a machine that has much to do comes late to some orders,
 * not in every one of so many tries. A shim that waits for each chunk does. */
static void fills_link(int argc, char **argv)
{
	enum { TRIES_MOST = 6 };
	int n = argc - 1;
	char dir[] = "/tmp/shimtest-XXXXXX", path[64];
	bool all = false;

	CHECK(mkdtemp(dir) != NULL);
	SAME(chdir(dir), 0);
	SAME(mkdir("first", 0700), 0);
	SAME(mkdir("second", 0700), 0);
	snprintf(path, sizeof path, "%s/state", dir);
	setenv("FAKE_CUDA_STATE", path, 1);
	for (int try = 0; !all && try < TRIES_MOST; try++) {
		struct way ways[2] = {{.name = argv[1]}, {.name = argv[n]}};
		unlink(path);
		go_ways(ways, n, (size_t)atol(argv[0]) << 20);
		all = fills(&ways[0]) && (n == 1 || fills(&ways[1]));
	}
	CHECK(all);
	SAME(chdir("/"), 0);
	snprintf(path, sizeof path, "rm -rf %s", dir);
	SAME(unsetenv("LD_PRELOAD"), 0);
	SAME(system(path), 0);
}

const struct test_case cases_way[] = {
	{"bench_link", bench_link}, {"fills_link", fills_link}, {NULL, NULL},
};
