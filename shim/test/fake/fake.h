/*
 * A driver without a device, for tests: it keeps contexts, memory, residency
 * and streams as the real one does, as far as a program can see, and moves the
 * bytes of managed memory for real when they leave "the device".
 *
 * Environment:
 *   FAKE_CUDA_DEVICES    number of devices, 1
 *   FAKE_CUDA_MEMORY     bytes of each, 16 GiB
 *   FAKE_CUDA_BANDWIDTH  bytes per second of a prefetch, 0 is as fast as it goes
 *   FAKE_CUDA_FAULT_NS   time for a page that a kernel finds missing, 0
 *   FAKE_CUDA_FAIL       name:n:code,... the nth call fails; n of 0 is every one
 *   FAKE_CUDA_SPLIT      1: cuGetProcAddress gives other pointers than dlsym
 *   FAKE_CUDA_LOG        file for a JSON line per call
 */
#ifndef FAKE_H
#define FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../src/abi.h"

#ifndef FAKE_GENERATION
#define FAKE_GENERATION 12
#endif

enum {
	DEVICES = 8,
	PAGE = 1 << 16,
	ERROR_DEINITIALIZED = 4,
	ERROR_NOT_INITIALIZED = 3,
	ERROR_INVALID_DEVICE = 101,
	ERROR_INVALID_CONTEXT = 201,
	ERROR_INVALID_HANDLE = 400,
	ERROR_CONTEXT_DESTROYED = 709,
	ERROR_CAPTURE_UNSUPPORTED = 900,
	ERROR_CAPTURE_INVALIDATED = 901,
};

struct fake_context {
	int device;
	bool alive, primary;
	int refs;
	struct fake_context *next;
};

struct fake_stream {
	struct fake_context *ctx;
	int64_t busy_until;
	bool alive, capturing, spoilt;
	int mode;
	struct fake_stream *next;
};

enum fake_kind { FAKE_MANAGED, FAKE_DEVICE, FAKE_POOLED, FAKE_VIEW };
enum fake_page { UNTOUCHED, ON_DEVICE, ON_HOST };

struct fake_memory {
	uint64_t base, size, slot; /* slot: addresses taken */
	enum fake_kind kind;
	int device;
	struct fake_context *ctx;
	uint8_t *page;  /* of managed memory: where each page lies */
	uint8_t *stage; /* the bytes of pages that lie on the host */
};

/* One lock guards everything. */
extern struct fake {
	pthread_mutex_t mu;
	bool initialized;
	int devices;
	uint64_t capacity, bandwidth, fault_ns;
	uint64_t used[DEVICES];
	uint64_t pooled[DEVICES]; /* live stream-ordered bytes */
	uint64_t pool[DEVICES];   /* what the pool keeps, at least those */
	int captures;           /* in global mode */
} fake;

void fake_lock(void);
void fake_unlock(void);
int64_t fake_now(void);
void fake_configure(void);

/* faults.c: called around every entry point. */
CUresult fake_fails(const char *name);
CUresult fake_log(const char *name, CUresult r);

/* context.c */
struct fake_context *fake_current(CUresult *why);
/* stream.c: the caller holds the lock. */
CUresult fake_unsafe(void);
void fake_occupy(CUstream stream, int64_t ns);

/* memory.c: the caller holds the lock. */
struct fake_memory *fake_find(uint64_t address);
CUresult fake_new(struct fake_context *ctx, uint64_t bytes, enum fake_kind kind,
		  uint64_t *out);
void fake_delete(struct fake_memory *m);
void fake_delete_of(struct fake_context *ctx);
/* Bring pages in or send them out; the bytes moved. */
uint64_t fake_bring(struct fake_memory *m, uint64_t from, uint64_t bytes, CUresult *why);
uint64_t fake_send(struct fake_memory *m, uint64_t from, uint64_t bytes);

/* fake_<export> is what the exports lead to. */
#define HOOK(base, export, version, flags, class, what, params, args) \
	CUresult fake_##export params;
#define CALL(base, export, version, params, args) CUresult fake_##export params;
#define SERVE(base, export, version, params, args) CUresult fake_##export params;
#include "../../abi.def"

#endif
