/*
 * The host memory of moves: GPUWHISK_SHIM is vmm, and FAKE_CUDA_BANDWIDTH 80 MiB a second.
 */
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "prog.h"

enum { MIB = 1 << 20, RING = 16 * MIB };

static int begin(void)
{
	invoker_listen();
	cuda_open("gpa2");
	return invoker_accept();
}

/* Memory is pinned while nobody asks the shim for anything. */
static void leave_alone(void) { poll(NULL, 0, 1); }

static void ordered(int c, unsigned type, uint64_t epoch)
{
	SAME(invoker_move(c, type, epoch).word[STATUS], GW_OK);
}

/* The link has moved so many bytes each way, each in factor times its time. */
static void took(uint64_t bytes, int factor)
{
	enum { ROUNDING = 2000 };
	long long want = (long long)(bytes / MIB * 12500000) * factor;

	for (int way = 0; way < 2; way++)
		CHECK(llabs(link_of(way).moved_ns - want) < ROUNDING);
}

/* Memory is pinned beforehand up to GPUWHISK_SHIM_ARENA, here 8 MiB of 16. The rest goes by
 * the ring. All of it moves at the speed of the link. */
static void arena_pinned(int argc, char **argv)
{
	CUdeviceptr p;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, 16 * MIB));
	pattern_write(p, 16 * MIB, 1);
	while (pinned() < 8 * MIB)
		leave_alone();
	ordered(c, GW_EVICT, 1);
	pattern_check(p, 16 * MIB, 1);
	took(16 * MIB, 1);
	SAME(pinned(), 8 * MIB + RING);
	OK(cu.cuMemFree_v2(p));
	SAME(pinned(), RING);
}

/* arena_ring FACTOR: no memory is pinned beforehand. Where the host lets nothing be pinned, by
 * FAKE_CUDA_PINNABLE, the fake takes four times as long. */
static void arena_ring(int argc, char **argv)
{
	enum { BYTES = 42 * MIB };
	CUdeviceptr p;
	int c = begin();

	OK(cu.cuMemAlloc_v2(&p, BYTES));
	pattern_write(p, BYTES, 1);
	ordered(c, GW_EVICT, 1);
	ordered(c, GW_PREFETCH, 2);
	took(BYTES, atoi(argv[0]));
	pattern_check(p, BYTES, 1);
}

/* An old glibc has no function for the call. */
static int memory_file(void) { return (int)syscall(SYS_memfd_create, "arena", 0); }

static uint64_t file_bytes(int file)
{
	struct stat st;

	SAME(fstat(file, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

/* The processes of a container share a file, and the memory that they pin. A process uses
 * its own range, and gives back what it does not need. */
static void arena_file(int argc, char **argv)
{
	enum { OWN = 3, OTHER = 5, PAGE = 4096 };
	int file = memory_file(), c = begin();
	CUdeviceptr p, q;

	SAME(ftruncate(file, (off_t)(1ull << 57)), 0);
	_Atomic uint64_t *counters = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(counters != MAP_FAILED);
	counters[OTHER] = 4 * MIB;
	invoker_send_file(c, OWN, file);
	invoker_report(c);
	OK(cu.cuMemAlloc_v2(&p, 8 * MIB));
	OK(cu.cuMemAlloc_v2(&q, 8 * MIB));
	pattern_write(p, 8 * MIB, 1);
	pattern_write(q, 8 * MIB, 2);
	/* Of 12 MiB another process has pinned 4. */
	while (counters[OWN] < 8 * MIB)
		leave_alone();
	for (uint64_t epoch = 1; epoch < 5; epoch += 2) {
		ordered(c, GW_EVICT, epoch);
		SAME(file_bytes(file), 16 * MIB + PAGE);
		ordered(c, GW_PREFETCH, epoch + 1);
		SAME(file_bytes(file), 8 * MIB + PAGE);
	}
	SAME(lseek(file, PAGE, SEEK_DATA) >> 48, OWN + 1);
	pattern_check(p, 8 * MIB, 1);
	pattern_check(q, 8 * MIB, 2);
	OK(cu.cuMemFree_v2(p));
	OK(cu.cuMemFree_v2(q));
	SAME(counters[OWN], 0);
	SAME(file_bytes(file), PAGE);
	/* A second file is not used. */
	invoker_send_file(c, OTHER, file);
	invoker_report(c);
	OK(cu.cuMemAlloc_v2(&p, 8 * MIB));
	while (counters[OWN] < 8 * MIB)
		leave_alone();
	SAME(counters[OTHER], 4 * MIB);
}

/* A frame without its file, with a file that is too small, or with a number beyond all ranges
 * leaves the memory to the process. */
static void arena_no_file(int argc, char **argv)
{
	int file = memory_file(), c = begin();
	CUdeviceptr p;

	SAME(ftruncate(file, 1 << 20), 0);
	invoker_send(c, GW_ARENA, 0, 3, 0);
	invoker_report(c);
	invoker_send_file(c, 3, file);
	invoker_report(c);
	SAME(ftruncate(file, (off_t)(1ull << 57)), 0);
	invoker_send_file(c, 512, file);
	invoker_report(c);
	OK(cu.cuMemAlloc_v2(&p, 8 * MIB));
	pattern_write(p, 8 * MIB, 1);
	ordered(c, GW_EVICT, 1);
	ordered(c, GW_PREFETCH, 2);
	pattern_check(p, 8 * MIB, 1);
	SAME(file_bytes(file), 0);
}

const struct test_case cases_arena[] = {
	{"arena_pinned", arena_pinned}, {"arena_ring", arena_ring}, {"arena_file", arena_file},
	{"arena_no_file", arena_no_file}, {NULL, NULL},
};
