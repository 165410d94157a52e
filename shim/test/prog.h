/*
 * Code that the test programs share: the driver as a program reaches it, a minimal
 * invoker, and the checks.
 */
#ifndef PROG_H
#define PROG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../src/driver/abi.h"
#include "../src/agent/frame.h"

/* The driver's functions, by whatever route they were got. */
struct cuda {
#define HOOK(base, export, version, flags, class, what, params, args) fn_##export *export;
#define GATE(base, export, version, flags, as, params, args) fn_##export *export;
#define CALL(base, export, version, params, args) fn_##export *export;
#define SERVE(base, export, version, params, args) fn_##export *export;
#include "../abi.def"
};
extern struct cuda cu;

/* route: linked, dlsym, gpa1 or gpa2. Initializes, and makes the primary
 * context of device 0 current. */
void cuda_open(const char *route);
void cuda_begin(void);
/* Returns the memory of this process, or of a range of it, that is really on device 0, to
 * the page, by the fake driver's own tables. With a real driver no program can see this. */
size_t in_use(void);
size_t lies_there(CUdeviceptr ptr, size_t bytes);
/* Bytes of host memory that this process has pinned. */
size_t pinned(void);
/* The work of the fake's link for this process's moves of managed memory, one way. */
struct link {
	long long moved_ns, idle_ns; /* idle: from its end of all work to the next order */
	long long late_ns;           /* the fake copied for so long after the link's end */
	unsigned orders, queued;     /* queued: orders that found the link still busy */
	unsigned late;               /* those whose copying outlasted the link's work */
};
struct link link_of(int to_device);
/* Returns the memory in use on device 0 by all processes, as cuMemGetInfo reports it,
 * including emptied memory that is kept. */
size_t counts_as_used(void);

#define CHECK(what)                                                             \
	do {                                                                    \
		if (!(what)) {                                                  \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
			exit(1);                                                \
		}                                                               \
	} while (0)
#define SAME(got, want)                                                         \
	do {                                                                    \
		long long g_ = (long long)(got), w_ = (long long)(want);        \
		if (g_ != w_) {                                                 \
			fprintf(stderr, "%s:%d: %s is %lld, want %lld\n", __FILE__, \
				__LINE__, #got, g_, w_);                        \
			exit(1);                                                \
		}                                                               \
	} while (0)
#define OK(call) SAME(call, CUDA_SUCCESS)

/* A frame of a shim. */
struct shim_frame {
	unsigned type;
	uint64_t epoch;
	uint32_t word[4];   /* the first fields */
	uint64_t number[6]; /* DONE: moved, ns, resident; USAGE: its numbers */
};
enum { ALLOCATED, RESIDENT, FIXED, HOST, BLOCKS };       /* USAGE */
enum { MOVED, NANOSECONDS, STILL_RESIDENT };             /* DONE */
enum { COMMAND, STATUS, CODE };                          /* DONE, word */

/* A process that is silent for so long hangs, also on a busy machine. */
enum { HANG_MS = 60000 };

/* Listen at GPUWHISK_SHIM_SOCKET, which is set. */
void invoker_listen(void);
void invoker_close_listener(void);
/* Connect to the socket until its queue is full; how many connections that took. */
int invoker_fill(int *waiting, int most);
/* The next process that connects; a connection's number. */
int invoker_accept(void);
/* -1: no process connects within the time. */
int invoker_accept_within(int ms);
void invoker_hello(int c, uint32_t version);
void invoker_send(int c, unsigned type, uint64_t epoch, uint64_t a, uint64_t b);
/* ARENA, with the file. */
void invoker_send_file(int c, uint64_t number, int file);
void invoker_send_raw(int c, const void *bytes, size_t n);
/* The next frame of this type; others are passed over. Fails the test after
 * HANG_MS, or when the shim hangs up. */
struct shim_frame invoker_receive(int c, unsigned type);
/* The next frame of any type. False: the shim hung up. */
bool invoker_receive_any(int c, struct shim_frame *out);
/* False: the shim hung up. */
bool invoker_receive_or_end(int c, unsigned type, struct shim_frame *out);
/* REPORT, and the answer to it. */
struct shim_frame invoker_report(int c);
struct shim_frame invoker_move(int c, unsigned type, uint64_t epoch);

/* Fill n bytes from a seed; check that they are still the same. */
void pattern_write(CUdeviceptr at, size_t n, unsigned seed);
void pattern_check(CUdeviceptr at, size_t n, unsigned seed);

/* A case of a cases_*.c file. */
struct test_case {
	const char *name;
	void (*run)(int argc, char **argv);
};
extern const struct test_case cases_move[], cases_memory[], cases_process[],
	cases_context[], cases_conn[], cases_fault[], cases_truth[], cases_refusal[], cases_way[], cases_limit[],
	cases_nvml[], cases_handles[], cases_vmm[], cases_own[], cases_random[], cases_arena[];

#endif
