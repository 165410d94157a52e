/*
 * A driver without a device, for tests: it keeps contexts, memory, residency
 * and streams as the real one does, as far as a program can see, and moves the
 * bytes of managed memory for real when they leave "the device".
 *
 * Environment:
 *   FAKE_CUDA_DEVICES    number of devices, 1
 *   FAKE_CUDA_MEMORY     bytes of each, 16 GiB
 *   FAKE_CUDA_STATE      file that all processes of the devices share, so that one
 *                        cannot have what another holds; it is made. Without it
 *                        each process has devices of its own
 *   FAKE_CUDA_BANDWIDTH  bytes per second of a prefetch, 0 is as fast as it goes
 *   FAKE_CUDA_BANDWIDTH_OUT    the same to the host alone, as of FAKE_CUDA_BANDWIDTH
 *   FAKE_CUDA_BANDWIDTH_FIRST  the same of pages that the host has not had before, as of
 *                        FAKE_CUDA_BANDWIDTH_OUT
 *   FAKE_CUDA_ORDER_NS   time from an order of a move until the device can begin with
 *                        it, 0; the link may be busy with others meanwhile
 *   FAKE_CUDA_FAULT_NS   time for a page that a kernel finds missing, 0
 *   FAKE_CUDA_MOVED      code: a kernel that meets managed memory which was once
 *                        prefetched to the host fails with it, and so does all that
 *                        follows in its context. A kernel's fault (700 to 719) shows
 *                        only there, any other code in the launch, too
 *   FAKE_CUDA_MANAGED    code: the same of a kernel that meets any managed memory
 *   FAKE_CUDA_CONCURRENT 0: the host cannot have managed memory while the device works,
 *                        and no prefetch moves it; 1
 *   FAKE_CUDA_FAIL       name:n:code,... the nth call fails; n of 0 is every one
 *   FAKE_CUDA_RAISE      name:signal  each of these calls raises the signal in its thread
 *   FAKE_CUDA_PITCH      bytes to whose multiple a row of a pitch is rounded, 512
 *   FAKE_CUDA_POOL_CHUNK bytes by which a stream-ordered pool takes memory, 4096; a
 *                        real driver takes 32 MiB
 *   FAKE_CUDA_PIN_NS     time to pin a page of 64 KiB of the host, 0
 *   FAKE_CUDA_PINNABLE   bytes that all processes of the host may pin together; no limit
 *   FAKE_CUDA_CGROUP     name of the control group that this process is in; by the kernel
 *   FAKE_CUDA_SPLIT      1: cuGetProcAddress gives other pointers than dlsym
 *   FAKE_CUDA_LOG        file for a JSON line per call
 */
#ifndef FAKE_H
#define FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../src/driver/abi.h"

/* The generation of its entry points: the leading number of CUDA's version. */
extern const int fake_generation;

enum {
	DEVICES = 8,
	PAGE = 1 << 16,
	CHUNK = 2 << 20, /* by which managed memory takes memory of a device */
	ERROR_NOT_INITIALIZED = 3,
	ERROR_INVALID_DEVICE = 101,
	ERROR_INVALID_CONTEXT = 201,
	ERROR_INVALID_HANDLE = 400,
	ERROR_ILLEGAL_ADDRESS = 700,
	ERROR_CONTEXT_DESTROYED = 709,
	ERROR_LAUNCH_FAILED = 719,
	ERROR_NOT_REGISTERED = 713,
	ERROR_NOT_READY = 600,
	ERROR_CAPTURE_UNSUPPORTED = 900,
	ERROR_CAPTURE_INVALIDATED = 901,
};

struct fake_context {
	int device;
	bool alive, primary;
	struct fake_context *of; /* for a green context: the primary context that owns its memory */
	_Atomic CUresult fault; /* of a kernel: every call gives it from then on */
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
	struct fake_pool *pool; /* of stream-ordered memory */
	uint8_t *page;  /* of managed memory: where each page lies */
	bool *hosted;   /* the host has had the page */
	struct fake_chunk {
		uint8_t pages; /* that lie on the device */
		bool kept;     /* emptied, and its memory not asked for since */
	} *chunk;
	bool addresses; /* reserved ones: mapped memory can be reached there */
	struct fake_mapping *mappings;
	bool moved;     /* it was prefetched to the host */
	uint8_t *stage; /* the bytes of pages that lie on the host */
};

/* One lock guards everything. */
extern struct fake {
	pthread_mutex_t mu;
	bool initialized, concurrent;
	int devices;
	uint64_t bandwidth_out, bandwidth_first;
	uint64_t capacity, bandwidth, order_ns, fault_ns, pitch;
	uint64_t pin_ns, pinnable; /* FAKE_CUDA_PIN_NS, FAKE_CUDA_PINNABLE */
	uint64_t used[DEVICES];   /* bytes that lie there, to the page */
	uint64_t pool_chunk;      /* FAKE_CUDA_POOL_CHUNK */
	int captures;           /* in global mode */
	CUresult moved_fault;   /* FAKE_CUDA_MOVED */
	CUresult managed_fault; /* FAKE_CUDA_MANAGED */
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
/* A move of ns nanoseconds that was requested at the time asked. Its link begins then, or
 * after the earlier moves. */
void fake_transfer(CUstream stream, int device, bool to_device, int64_t ns, int64_t asked);
/* The stream can be used in this context. */
CUresult fake_stream_fits(CUstream stream, const struct fake_context *ctx);
/* Returns true if operations in the stream's order are recorded into a graph. */
bool fake_captured(CUstream stream);
/* Returns the time at which the stream will have finished its work. */
int64_t fake_stream_end(CUstream stream);
/* Returns the time at which all streams of a context will have finished. The question
 * spoils captures among them. */
CUresult fake_context_end(const struct fake_context *ctx, int64_t *at);
void fake_sleep_until(int64_t at);
/* Memory that was used on the stream was unmapped: the context is lost if it is at work. */
void fake_fault_busy(struct fake_context *c, CUstream stream);

/* copies.c: bring in the memory that a kernel or copy touches. The caller must hold the
 * lock. */
CUresult fake_reach(CUdeviceptr ptr, size_t bytes, CUstream stream);

/* usage.c: the memory of the devices that all processes use. The caller must hold the
 * lock. Kept memory counts as in use and is given out when needed. Other processes'
 * managed memory is given out if nothing else is left. */
void fake_usage_open(void);
bool fake_reserve(int device, uint64_t bytes, bool managed);
void fake_release(int device, uint64_t bytes, bool managed);
void fake_keep(int device, uint64_t bytes);
/* False: it was given out meanwhile. */
bool fake_keep_end(int device, uint64_t bytes, bool take);
uint64_t fake_in_use(int device);
/* Pin so many bytes more, or fewer. False: the host has no more to pin. */
bool fake_pin(int64_t bytes);
/* Bytes of this process's managed memory whose space is another's by now. */
uint64_t fake_stolen(int device);
void fake_stolen_out(int device, uint64_t bytes);
/* When a transfer of so many nanoseconds ends: one at a time each way. */
int64_t fake_link(int device, bool to_device, int64_t from, int64_t ns);

/* memory.c: the caller holds the lock. */
/* Take memory of the device, if need be that of other managed memory of this process. */
bool fake_make_space(int device, uint64_t bytes, bool managed, const struct fake_memory *except);
/* Evict memory that another process has taken over. */
void fake_evict_stolen(void);
struct fake_memory *fake_find(uint64_t address);
CUresult fake_new(struct fake_context *ctx, uint64_t bytes, enum fake_kind kind,
		  uint64_t *out);
void fake_delete(struct fake_memory *m);
void fake_delete_of(struct fake_context *ctx);
/* Bring pages in, or send them out. Returns the number of moved bytes. fresh is the part
 * that the host has not had before. */
uint64_t fake_page_in(struct fake_memory *m, uint64_t from, uint64_t bytes, CUresult *why);
uint64_t fake_page_out(struct fake_memory *m, uint64_t from, uint64_t bytes, uint64_t *fresh);

/* pools.c: the caller holds the lock. NULL: there is no such pool. */
struct fake_pool *fake_pool_of(CUmemoryPool pool);
struct fake_pool *fake_default_pool(int device);
/* Returns false if the device does not have enough memory. */
bool fake_pool_take(struct fake_pool *p, uint64_t bytes);
void fake_pool_free(struct fake_pool *p, uint64_t bytes);
/* The program waited for the device: pools give back the memory above their threshold. */
void fake_pools_synchronize(void);
/* A primary context ended. */
void fake_pool_end(int device);
/* A node of a graph allocates or frees. False: no node has allocated this. */
void fake_graph_alloc(void *graph, CUdeviceptr ptr, uint64_t bytes);
bool fake_graph_free(CUdeviceptr ptr);

/* launch.c: the kernels that a captured graph holds. The caller holds the lock. */
void fake_graph_forget(void *graph);
CUresult fake_graph_replay(void *graph, CUstream stream);

/* physical.c: memory with access is mapped to all of the range, which begins in m. The
 * caller holds the lock. */
bool fake_mapped(const struct fake_memory *m, CUdeviceptr ptr, uint64_t bytes);
/* The range is used from now on by the stream's work. */
void fake_use(const struct fake_memory *m, CUdeviceptr ptr, uint64_t bytes,
	      struct fake_context *c, CUstream stream);
/* pinned.c, with the lock held. */
bool fake_is_pinned(const void *ptr, uint64_t bytes);

/* The exports call fake_<export>. */
#define HOOK(base, export, version, flags, class, what, params, args) \
	CUresult fake_##export params;
#define GATE(base, export, version, flags, as, params, args) CUresult fake_##export params;
#define CALL(base, export, version, params, args) CUresult fake_##export params;
#define SERVE(base, export, version, params, args) CUresult fake_##export params;
#include "../../abi.def"

#endif
