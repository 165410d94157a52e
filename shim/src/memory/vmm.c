#include "memory/vmm.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "driver/resolve.h"
#include "memory/contexts.h"
#include "memory/gate.h"
#include "memory/residency.h"
#include "process/config.h"
#include "process/state.h"

enum {
	SMALL = 1 << 20,      /* blocks up to this size lie in slabs */
	LEAST_SLOT = 512,
	ADDRESS_BITS = 48,
	SLOTS_MOST = GW_GRANULE / LEAST_SLOT,
};

struct piece {
	CUmemHandle handle; /* 0: the piece is out */
	bool pinned;        /* its host memory */
};

struct span {
	CUdeviceptr base;
	uint64_t size;
	size_t asked;    /* by the program, for a large block */
	uint32_t slot;   /* bytes of a slab's slots; 0: a large block */
	uint32_t live;   /* slots in use */
	uint64_t used[SLOTS_MOST / 64]; /* a bit for each slot */
	CUcontext ctx;
	CUdevice device;
	uint8_t *host;   /* where its bytes lie while they are out; NULL: not made yet */
	struct span *next;
	bool fixed;      /* never moves again */
	unsigned pieces;
	struct piece piece[];
};

/* Guarded by the driver lock, like the spans. */
static struct span *spans;
static unsigned out_pieces;
static uint64_t pinned_bytes;
static bool pin_refused;

static atomic_bool in_use;

bool gw_vmm_in_use(void) { return atomic_load_explicit(&in_use, memory_order_relaxed); }
unsigned gw_vmm_out(void) { return out_pieces; }

static uint64_t piece_size(void)
{
	uint64_t size = gw_config.chunk / GW_GRANULE * GW_GRANULE;

	return size ? size : GW_GRANULE;
}

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + GW_GRANULE - 1) / GW_GRANULE * GW_GRANULE;
}

static uint32_t slot_of(size_t bytes)
{
	uint32_t slot = LEAST_SLOT;

	while (slot < bytes)
		slot *= 2;
	return slot;
}

static uint64_t piece_base(const struct span *s, unsigned i) { return s->base + i * piece_size(); }

static uint64_t piece_bytes(const struct span *s, unsigned i)
{
	uint64_t rest = s->size - i * piece_size();

	return rest < piece_size() ? rest : piece_size();
}

/* The span that holds the address, or NULL. The caller holds the driver lock. */
static struct span *find(CUdeviceptr ptr)
{
	struct gw_block b;

	return gw_find(GW_SPAN, ptr, &b) ? (struct span *)(uintptr_t)b.owner : NULL;
}

/* Memory of several devices would need access rights for each device, and some drivers
 * lack the calls. Memory is plain in both cases. */
static bool supported(void)
{
	enum { UNKNOWN, YES, NO, VIRTUAL_MEMORY = 102 };
	static atomic_int known;
	fn_cuDeviceGetAttribute *ask = GW_REAL(cuDeviceGetAttribute);
	fn_cuDeviceGetCount *count = GW_REAL(cuDeviceGetCount);
	int n = 0, has = 0, seen = atomic_load_explicit(&known, memory_order_relaxed);

	if (seen == UNKNOWN) {
		seen = ask && count && count(&n) == CUDA_SUCCESS && n == 1 &&
		       ask(&has, VIRTUAL_MEMORY, 0) == CUDA_SUCCESS && has &&
		       GW_REAL(cuMemCreate) && GW_REAL(cuMemAddressReserve) ? YES : NO;
		if (atomic_exchange(&known, seen) == UNKNOWN && seen == NO)
			gw_log("memory cannot be mapped by handles here: it stays on the device");
	}
	return seen == YES;
}

/* Give the piece memory of the device. */
static CUresult map_piece(struct span *s, unsigned i)
{
	struct gw_physical_prop how = {
		.prop = {.type = 1, .location = {LOCATION_DEVICE, s->device}},
		.flags = {0, 1}, /* capable of GPUDirect, as plain memory is */
	};
	const struct gw_access access = {{LOCATION_DEVICE, s->device}, 3};
	CUdeviceptr at = piece_base(s, i);
	uint64_t bytes = piece_bytes(s, i);
	CUmemHandle h;
	CUresult r = GW_REAL(cuMemCreate)(&h, bytes, &how.prop, 0);

	if (r != CUDA_SUCCESS)
		return r;
	r = GW_REAL(cuMemMap)(at, bytes, 0, h, 0);
	if (r == CUDA_SUCCESS) {
		r = GW_REAL(cuMemSetAccess)(at, bytes, &access, 1);
		if (r != CUDA_SUCCESS)
			GW_REAL(cuMemUnmap)(at, bytes);
	}
	if (r == CUDA_SUCCESS)
		s->piece[i].handle = h;
	else
		GW_REAL(cuMemRelease)(h);
	return r;
}

static void unmap_piece(struct span *s, unsigned i)
{
	if (!s->piece[i].handle)
		return;
	GW_REAL(cuMemUnmap)(piece_base(s, i), piece_bytes(s, i));
	GW_REAL(cuMemRelease)(s->piece[i].handle);
	s->piece[i].handle = 0;
}

static void free_host(struct span *s)
{
	fn_cuMemHostUnregister *unpin = GW_REAL(cuMemHostUnregister);

	for (unsigned i = 0; i < s->pieces; i++)
		if (s->piece[i].pinned && unpin) {
			unpin(s->host + i * piece_size());
			pinned_bytes -= piece_bytes(s, i);
		}
	if (s->host)
		munmap(s->host, s->size);
}

/* End a span and forget its blocks. The caller holds the driver lock. */
static void end_span(struct span *s)
{
	struct gw_block b;
	struct span **at = &spans;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	gw_remove(GW_SPAN, s->base, &b);
	for (unsigned i = 0; i < s->pieces; i++) {
		gw_remove(GW_ADDRESS, piece_base(s, i), &b);
		out_pieces -= s->piece[i].handle == 0;
		unmap_piece(s, i);
	}
	GW_REAL(cuMemAddressFree)(s->base, s->size);
	free_host(s);
	free(s);
}

/* Take the spans of a context that has ended. */
static void end_context(CUcontext ctx)
{
	for (struct span *s = spans, *next; s; s = next) {
		next = s->next;
		if (s->ctx == ctx)
			end_span(s);
	}
}

/* Record a span and its pieces: the reserved bytes become the pieces. */
static void record(struct span *s)
{
	struct gw_block all = {
		.base = s->base, .size = s->size, .kind = GW_MAPPED, .ctx = s->ctx,
		.owner = (uintptr_t)s,
	};

	s->next = spans;
	spans = s;
	bool ok = gw_add(GW_SPAN, &all);
	for (unsigned i = 0; i < s->pieces; i++)
		ok = gw_settle(GW_DEVICE_BYTES, piece_bytes(s, i), GW_ADDRESS, &(struct gw_block){
			.base = piece_base(s, i), .size = piece_bytes(s, i), .kind = GW_VMM,
			.ctx = s->ctx, .device = (int16_t)s->device,
		}) && ok;
	if (!ok)
		gw_disable("no memory for the registry");
}

/* Make a span for which its bytes are reserved. */
static CUresult make_span(struct gw_current h, uint64_t size, struct span **out)
{
	unsigned n = (unsigned)((size + piece_size() - 1) / piece_size()), i = 0;
	struct span *s = calloc(1, sizeof *s + n * sizeof *s->piece);
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	if (!s)
		return r;
	s->size = size;
	s->ctx = h.ctx;
	s->device = h.device;
	s->pieces = n;
	r = GW_REAL(cuMemAddressReserve)(&s->base, size, GW_GRANULE, 0, 0);
	for (; r == CUDA_SUCCESS && i < n; i++)
		r = map_piece(s, i);
	if (r == CUDA_SUCCESS) {
		record(s);
		*out = s;
		return r;
	}
	while (i-- > 0)
		unmap_piece(s, i);
	if (s->base)
		GW_REAL(cuMemAddressFree)(s->base, size);
	free(s);
	return r;
}

/* A slab of the context with a free slot of this size, or NULL. */
static struct span *slab_with_room(CUcontext ctx, uint32_t slot)
{
	struct span *s = spans;

	while (s && !(s->slot == slot && s->ctx == ctx && s->live < GW_GRANULE / slot && !s->fixed))
		s = s->next;
	return s;
}

static CUdeviceptr take_slot(struct span *s)
{
	unsigned word = 0;

	while (s->used[word] == UINT64_MAX)
		word++;
	unsigned bit = (unsigned)__builtin_ctzll(~s->used[word]);
	s->used[word] |= 1ull << bit;
	s->live++;
	return s->base + (uint64_t)(64 * word + bit) * s->slot;
}

static uint64_t cost(size_t bytes)
{
	struct gw_current h = gw_current();

	if (!supported() || !h.ctx || !bytes || bytes >> ADDRESS_BITS)
		return bytes;
	if (bytes > SMALL)
		return round_up(bytes);
	gw_driver_lock();
	bool room = slab_with_room(h.ctx, slot_of(bytes)) != NULL;
	gw_driver_unlock();
	return room ? 0 : GW_GRANULE;
}

static CUresult alloc_small(const struct gw_request *q, struct gw_current h, uint64_t reserved,
			    struct gw_given *given)
{
	uint32_t slot = slot_of(q->bytes);
	struct span *s = slab_with_room(h.ctx, slot);
	CUresult r = CUDA_SUCCESS;

	given->settled = true;
	if (!s && !reserved)
		return GW_AGAIN; /* the slot that was free is another thread's */
	if (s)
		gw_settle(GW_DEVICE_BYTES, reserved, GW_ADDRESS, NULL);
	else if ((r = make_span(h, GW_GRANULE, &s)) != CUDA_SUCCESS)
		gw_settle(GW_DEVICE_BYTES, reserved, GW_ADDRESS, NULL);
	else
		s->slot = slot;
	if (r == CUDA_SUCCESS)
		*q->out = take_slot(s);
	return r;
}

static CUresult alloc_large(const struct gw_request *q, struct gw_current h, uint64_t reserved,
			    struct gw_given *given)
{
	struct span *s;
	CUresult r = make_span(h, reserved, &s);

	given->settled = r == CUDA_SUCCESS;
	if (r != CUDA_SUCCESS)
		return r;
	s->asked = q->bytes;
	*q->out = s->base;
	return r;
}

static CUresult alloc(const struct gw_request *q, uint64_t reserved, struct gw_given *given)
{
	struct gw_current h = gw_current();
	CUresult r;

	if (!supported() || !h.ctx || !q->bytes || q->bytes >> ADDRESS_BITS)
		return gw_alloc_plain(q, given); /* the driver itself shall refuse it */
	given->kind = GW_VMM;
	gw_driver_lock();
	if (!atomic_exchange(&in_use, true))
		gw_context_ends = end_context;
	r = q->bytes > SMALL ? alloc_large(q, h, reserved, given) :
			       alloc_small(q, h, reserved, given);
	gw_driver_unlock();
	return r;
}

/* Wait until no kernel can use the context's memory any more, as cuMemFree does. */
static CUresult synchronize(CUcontext ctx)
{
	fn_cuCtxSynchronize *sync = GW_REAL(cuCtxSynchronize);
	fn_cuCtxGetCurrent *current = GW_REAL(cuCtxGetCurrent);
	CUcontext now;

	if (!sync || !current)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (current(&now) == CUDA_SUCCESS && now == ctx)
		return sync();
	gw_driver_lock();
	CUresult r = gw_push_context(ctx);
	if (r == CUDA_SUCCESS) {
		r = sync();
		gw_pop_context();
	}
	gw_driver_unlock();
	return r;
}

/* The slot at an address of a slab; -1 if no block begins there. */
static int slot_at(const struct span *s, CUdeviceptr ptr)
{
	uint64_t i = (ptr - s->base) / s->slot;

	return (ptr - s->base) % s->slot == 0 && s->used[i / 64] >> i % 64 & 1 ? (int)i : -1;
}

/* The caller holds the driver lock. */
static CUresult free_in(struct span *s, CUdeviceptr ptr)
{
	if (!s->slot) {
		if (ptr != s->base)
			return CUDA_ERROR_INVALID_VALUE;
		end_span(s);
		return CUDA_SUCCESS;
	}
	int i = slot_at(s, ptr);
	if (i < 0)
		return CUDA_ERROR_INVALID_VALUE;
	s->used[i / 64] &= ~(1ull << i % 64);
	if (--s->live == 0)
		end_span(s);
	return CUDA_SUCCESS;
}

bool gw_vmm_free(CUdeviceptr ptr, CUresult *r)
{
	if (!gw_vmm_in_use())
		return false;
	gw_driver_lock();
	struct span *s = find(ptr);
	CUcontext ctx = s ? s->ctx : NULL;
	gw_driver_unlock();
	if (!s)
		return false;
	*r = synchronize(ctx);
	if (*r != CUDA_SUCCESS)
		return true;
	gw_driver_lock();
	s = find(ptr);
	*r = s ? free_in(s, ptr) : CUDA_ERROR_INVALID_VALUE;
	gw_driver_unlock();
	return true;
}

bool gw_vmm_range(CUdeviceptr ptr, CUdeviceptr *base, size_t *bytes)
{
	if (!gw_vmm_in_use())
		return false;
	gw_driver_lock();
	struct span *s = find(ptr);
	if (s) {
		*base = s->slot ? ptr - (ptr - s->base) % s->slot : s->base;
		*bytes = s->slot ? s->slot : s->asked;
	}
	gw_driver_unlock();
	return s != NULL;
}

void gw_vmm_pin(CUdeviceptr ptr)
{
	struct gw_block b;

	gw_driver_lock();
	struct span *s = find(ptr);
	for (unsigned i = 0; s && !s->fixed && i < s->pieces; i++)
		if (gw_find(GW_ADDRESS, piece_base(s, i), &b)) {
			b.kind = GW_PLAIN;
			if (!gw_add(GW_ADDRESS, &b)) /* in the place of the movable one */
				gw_disable("no memory for the registry");
		}
	if (s)
		s->fixed = true;
	gw_driver_unlock();
}

/* The host memory of a span. A child has no use for its pages. */
static uint8_t *host_of(struct span *s)
{
	if (s->host)
		return s->host;
	void *p = mmap(NULL, s->size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, s->size, MADV_DONTFORK);
	madvise(p, s->size, MADV_HUGEPAGE);
	return s->host = p;
}

static CUresult order(const struct gw_block *b, uint64_t from, uint64_t to, bool out,
		      CUstream stream)
{
	fn_cuMemcpyDtoHAsync_v2 *to_host = GW_REAL(cuMemcpyDtoHAsync_v2);
	fn_cuMemcpyHtoDAsync_v2 *to_device = GW_REAL(cuMemcpyHtoDAsync_v2);
	struct span *s = find(b->base);

	(void)from, (void)to;
	if (!s || !to_host || !to_device || !host_of(s))
		return s ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	uint8_t *copy = s->host + (b->base - s->base);
	if (out)
		return to_host(copy, b->base, b->size, stream);
	unsigned i = (unsigned)((b->base - s->base) / piece_size());
	CUresult r = map_piece(s, i);
	if (r != CUDA_SUCCESS)
		return r;
	out_pieces--;
	r = to_device(b->base, copy, b->size, stream);
	if (r != CUDA_SUCCESS) {
		unmap_piece(s, i);
		out_pieces++;
	}
	return r;
}

/* Memory that moved out is released, and so is memory that did not come in whole. */
static void finish(uint64_t base, bool out, bool done)
{
	struct span *s = find(base);
	unsigned i = s ? (unsigned)((base - s->base) / piece_size()) : 0;

	if (!s || out != done) {
		if (s && !out && done && !s->piece[i].pinned)
			madvise(s->host + (base - s->base), piece_bytes(s, i), MADV_DONTNEED);
		return;
	}
	unmap_piece(s, i);
	out_pieces++;
}

/* Wait until the device has done all work of a context that is current. */
static CUresult await_context(CUcontext ctx, int64_t end)
{
	fn_cuCtxRecordEvent *record_event = GW_REAL(cuCtxRecordEvent);
	fn_cuEventCreate *create = GW_REAL(cuEventCreate);
	fn_cuEventDestroy_v2 *destroy = GW_REAL(cuEventDestroy_v2);
	fn_cuEventQuery *query = GW_REAL(cuEventQuery);
	fn_cuCtxSynchronize *sync = GW_REAL(cuCtxSynchronize);
	enum { DISABLE_TIMING = 2, NAP_NS = 50000 };
	void *event;
	CUresult r;

	/* Before CUDA 12.5 a context can only be waited for. */
	if (!record_event || !create || !destroy || !query)
		return sync ? sync() : CUDA_ERROR_NOT_SUPPORTED;
	r = create(&event, DISABLE_TIMING);
	if (r != CUDA_SUCCESS)
		return r;
	r = record_event(ctx, event);
	while (r == CUDA_SUCCESS && (r = query(event)) == CUDA_ERROR_NOT_READY && gw_clock() < end) {
		nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
		r = CUDA_SUCCESS;
	}
	destroy(event);
	return r;
}

CUresult gw_vmm_close(int ms)
{
	int64_t end = gw_clock() + ms * 1000000ll;
	CUresult r = CUDA_SUCCESS;

	if (gw_gate_is_closed())
		return r;
	if (!gw_gate_close(ms))
		return CUDA_ERROR_NOT_READY;
	for (unsigned i = 0; r == CUDA_SUCCESS && i < gw_contexts(); i++) {
		CUcontext ctx = gw_context_at(i);
		if (gw_push_context(ctx) != CUDA_SUCCESS)
			continue; /* it has ended */
		r = await_context(ctx, end);
		gw_pop_context();
	}
	if (r != CUDA_SUCCESS)
		gw_gate_open();
	return r;
}

void gw_vmm_settle(void)
{
	if (!out_pieces && gw_gate_is_closed())
		gw_gate_open();
}

/* Pin the host memory of one piece. */
static bool pin_piece(struct span *s, unsigned i)
{
	enum { PORTABLE = 1 };
	fn_cuMemHostRegister_v2 *pin = GW_REAL(cuMemHostRegister_v2);
	uint64_t bytes = piece_bytes(s, i);

	if (!pin || !host_of(s) || gw_push_context(s->ctx) != CUDA_SUCCESS)
		return false;
	bool ok = pin(s->host + i * piece_size(), bytes, PORTABLE) == CUDA_SUCCESS;
	gw_pop_context();
	s->piece[i].pinned = ok;
	pinned_bytes += ok ? bytes : 0;
	return ok;
}

bool gw_vmm_prepare(void)
{
	if (pin_refused || gw_driver_stopped())
		return false;
	for (struct span *s = spans; s; s = s->next)
		for (unsigned i = 0; !s->fixed && i < s->pieces; i++) {
			if (s->piece[i].pinned || !s->piece[i].handle ||
			    pinned_bytes + piece_bytes(s, i) > gw_config.arena)
				continue;
			pin_refused = !pin_piece(s, i);
			return !pin_refused;
		}
	return false;
}

void gw_vmm_reset(void)
{
	/* The parent's memory and its addresses are not the child's. */
	spans = NULL;
	out_pieces = 0;
	pinned_bytes = 0;
	atomic_store(&in_use, false);
}

const struct gw_backend gw_vmm_backend = {"vmm", 2, cost, alloc, supported};
const struct gw_mover gw_vmm_mover = {true, order, finish};
