/*
 * Memory: one range of addresses, handed out from its start, freed ranges used
 * again at once. Pages of managed memory that leave the device are copied away
 * and their place is emptied, so a test that finds its contents again knows
 * that they were carried there and back.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake.h"

static const uint64_t span = 1ull << 38;
static uint64_t start, end;

static struct {
	struct fake_memory **at; /* sorted by base */
	size_t n, size;
} known;

/* Freed ranges, the latest last. */
static struct range {
	uint64_t base, slot;
} *spare;
static size_t spares, spare_size;

static size_t above(uint64_t address)
{
	size_t low = 0, high = known.n;

	while (low < high) {
		size_t mid = (low + high) / 2;
		if (known.at[mid]->base <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct fake_memory *fake_find(uint64_t address)
{
	size_t i = above(address);
	struct fake_memory *m = i ? known.at[i - 1] : NULL;

	return m && address < m->base + m->size ? m : NULL;
}

static uint64_t reserve_range(uint64_t slot)
{
	for (size_t i = spares; i-- > 0 && spares - i < 64;)
		if (spare[i].slot == slot) {
			uint64_t base = spare[i].base;
			spare[i] = spare[--spares];
			return base;
		}
	if (!start) {
		void *p = mmap(NULL, span, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED)
			return 0;
		start = end = (uint64_t)p;
		if (end % PAGE)
			end += PAGE - end % PAGE;
	}
	if (end + slot > start + span)
		return 0;
	end += slot;
	return end - slot;
}

static void release_range(uint64_t base, uint64_t slot)
{
	madvise((void *)base, slot, MADV_DONTNEED);
	if (spares == spare_size) {
		spare_size = spare_size ? 2 * spare_size : 256;
		spare = realloc(spare, spare_size * sizeof *spare);
	}
	spare[spares++] = (struct range){base, slot};
}

static void insert(struct fake_memory *m)
{
	if (known.n == known.size) {
		known.size = known.size ? 2 * known.size : 256;
		known.at = realloc(known.at, known.size * sizeof *known.at);
	}
	size_t i = above(m->base);
	memmove(known.at + i + 1, known.at + i, (known.n - i) * sizeof *known.at);
	known.at[i] = m;
	known.n++;
}

static uint64_t pages(uint64_t bytes) { return (bytes + PAGE - 1) / PAGE; }

/* The bytes of page i that belong to the block. */
static uint64_t extent(const struct fake_memory *m, uint64_t i)
{
	uint64_t rest = m->size - i * PAGE;

	return rest < PAGE ? rest : PAGE;
}

bool fake_make_space(int device, uint64_t bytes, bool managed, const struct fake_memory *except)
{
	for (size_t i = 0; !fake_reserve(device, bytes, managed); i++) {
		if (i == known.n)
			return false;
		struct fake_memory *m = known.at[i];
		if (m != except && m->kind == FAKE_MANAGED && m->device == device)
			fake_page_out(m, 0, m->size, &(uint64_t){0});
	}
	return true;
}

static uint64_t chunks(uint64_t bytes) { return (bytes + CHUNK - 1) / CHUNK; }

/* The bytes of chunk i that belong to the block. */
static uint64_t chunk_bytes(const struct fake_memory *m, uint64_t i)
{
	uint64_t rest = m->size - i * CHUNK;

	return rest < CHUNK ? rest : CHUNK;
}

CUresult fake_new(struct fake_context *ctx, uint64_t bytes, enum fake_kind kind,
		  uint64_t *out)
{
	uint64_t slot = bytes >= PAGE ? pages(bytes) * PAGE : (bytes + 511) / 512 * 512;

	if (!bytes || !out)
		return CUDA_ERROR_INVALID_VALUE;
	/* Emptying a place works by whole pages of the machine. */
	slot = (slot + 4095) / 4096 * 4096;
	bool plain = kind == FAKE_DEVICE;
	if (bytes > span || (plain && !fake_make_space(ctx->device, bytes, false, NULL)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t base = reserve_range(slot);
	if (!base) {
		if (plain)
			fake_release(ctx->device, bytes, false);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	struct fake_memory *m = calloc(1, sizeof *m);
	*m = (struct fake_memory){
		.base = base, .size = bytes, .slot = slot, .kind = kind, .device = ctx->device,
		.ctx = ctx->of ? ctx->of : ctx,
	};
	if (kind == FAKE_MANAGED) {
		m->page = calloc(pages(bytes), 1);
		m->hosted = calloc(pages(bytes), sizeof *m->hosted);
		m->chunk = calloc(chunks(bytes), sizeof *m->chunk);
	}
	if (plain)
		fake.used[ctx->device] += bytes;
	insert(m);
	*out = base;
	return CUDA_SUCCESS;
}

static void uncount(struct fake_memory *m)
{
	if (m->kind == FAKE_DEVICE) {
		fake.used[m->device] -= m->size;
		fake_release(m->device, m->size, false);
	}
	if (m->pool)
		fake_pool_free(m->pool, m->size);
	for (uint64_t i = 0; m->page && i < pages(m->size); i++)
		if (m->page[i] == ON_DEVICE)
			fake.used[m->device] -= extent(m, i);
	for (uint64_t i = 0; m->chunk && i < chunks(m->size); i++)
		if (m->chunk[i].pages)
			fake_release(m->device, chunk_bytes(m, i), true);
		else if (m->chunk[i].kept)
			fake_keep_end(m->device, chunk_bytes(m, i), false);
}

void fake_delete(struct fake_memory *m)
{
	size_t i = above(m->base) - 1;

	memmove(known.at + i, known.at + i + 1, (known.n - i - 1) * sizeof *known.at);
	known.n--;
	uncount(m);
	if (m->stage)
		munmap(m->stage, m->slot);
	release_range(m->base, m->slot);
	free(m->page);
	free(m->hosted);
	free(m->chunk);
	free(m);
}

void fake_delete_of(struct fake_context *ctx)
{
	for (size_t i = known.n; i-- > 0;)
		if (known.at[i]->ctx == ctx)
			fake_delete(known.at[i]);
}

static uint8_t *stage_of(struct fake_memory *m)
{
	if (!m->stage)
		m->stage = mmap(NULL, m->slot, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return m->stage;
}

static void to_host(struct fake_memory *m, uint64_t i)
{
	uint8_t *at = (uint8_t *)m->base + i * PAGE;
	uint64_t n = extent(m, i);

	memcpy(stage_of(m) + i * PAGE, at, n);
	madvise(at, (n + 4095) / 4096 * 4096, MADV_DONTNEED);
}

static void to_device(struct fake_memory *m, uint64_t i)
{
	uint64_t n = extent(m, i);

	memcpy((uint8_t *)m->base + i * PAGE, stage_of(m) + i * PAGE, n);
	madvise(stage_of(m) + i * PAGE, (n + 4095) / 4096 * 4096, MADV_DONTNEED);
}

/* Room for one more page of the chunk that it lies in. */
static bool page_in(struct fake_memory *m, uint64_t page)
{
	uint64_t i = page * PAGE / CHUNK, n = chunk_bytes(m, i);
	struct fake_chunk *c = &m->chunk[i];

	if (!c->pages && !(c->kept && fake_keep_end(m->device, n, true)) &&
	    !fake_make_space(m->device, n, true, m))
		return false;
	c->kept = false;
	c->pages++;
	return true;
}

static void page_out(struct fake_memory *m, uint64_t page)
{
	uint64_t i = page * PAGE / CHUNK;
	struct fake_chunk *c = &m->chunk[i];

	if (--c->pages)
		return;
	c->kept = true;
	fake_keep(m->device, chunk_bytes(m, i));
}

uint64_t fake_page_in(struct fake_memory *m, uint64_t from, uint64_t bytes, CUresult *why)
{
	uint64_t moved = 0, last = bytes ? (from + bytes - 1) / PAGE : 0;

	*why = CUDA_SUCCESS;
	if (m->kind != FAKE_MANAGED || !bytes)
		return 0;
	for (uint64_t i = from / PAGE; i <= last; i++) {
		uint64_t n = extent(m, i);
		if (m->page[i] == ON_DEVICE)
			continue;
		if (!page_in(m, i)) {
			*why = CUDA_ERROR_OUT_OF_MEMORY;
			break;
		}
		if (m->page[i] == ON_HOST)
			to_device(m, i);
		m->page[i] = ON_DEVICE;
		fake.used[m->device] += n;
		moved += n;
	}
	return moved;
}

/* An untouched page that is sent comes to exist on the host, as on a real
 * machine; there is nothing in it to be carried. */
uint64_t fake_page_out(struct fake_memory *m, uint64_t from, uint64_t bytes, uint64_t *fresh)
{
	uint64_t moved = 0, last = bytes ? (from + bytes - 1) / PAGE : 0;

	if (m->kind != FAKE_MANAGED || !bytes)
		return 0;
	for (uint64_t i = from / PAGE; i <= last; i++) {
		uint64_t n = extent(m, i);
		if (m->page[i] == ON_HOST)
			continue;
		if (m->page[i] == ON_DEVICE) {
			to_host(m, i);
			fake.used[m->device] -= n;
			page_out(m, i);
		} else {
			stage_of(m);
		}
		m->page[i] = ON_HOST;
		*fresh += m->hosted[i] ? 0 : n;
		m->hosted[i] = true;
		moved += n;
	}
	return moved;
}

/* The chunk leaves, and its memory is another's already. */
static void chunk_lost(struct fake_memory *m, uint64_t i)
{
	uint64_t from = i * CHUNK / PAGE, to = from + CHUNK / PAGE;

	for (uint64_t p = from; p < to && p < pages(m->size); p++) {
		if (m->page[p] != ON_DEVICE)
			continue;
		to_host(m, p);
		fake.used[m->device] -= extent(m, p);
		m->page[p] = ON_HOST;
	}
	m->chunk[i].pages = 0;
	fake_stolen_out(m->device, chunk_bytes(m, i));
}

void fake_evict_stolen(void)
{
	for (size_t k = 0; k < known.n; k++) {
		struct fake_memory *m = known.at[k];
		for (uint64_t i = 0; m->chunk && i < chunks(m->size) && fake_stolen(m->device); i++)
			if (m->chunk[i].pages)
				chunk_lost(m, i);
	}
}

/* For tests, by dlsym: the memory of this process, or of a range of it, that is really on
 * a device, to the page. */
#define EXPORT __attribute__((visibility("default")))
EXPORT unsigned long long fake_report_used(int device);
EXPORT unsigned long long fake_report_range(CUdeviceptr ptr, size_t bytes);

unsigned long long fake_report_used(int device)
{
	fake_lock();
	uint64_t n = fake.used[device];
	fake_unlock();
	return n;
}

unsigned long long fake_report_range(CUdeviceptr ptr, size_t bytes)
{
	uint64_t n = 0;

	fake_lock();
	struct fake_memory *m = fake_find(ptr);
	for (uint64_t i = m ? (ptr - m->base) / PAGE : 0;
	     m && m->page && i * PAGE < ptr - m->base + bytes && i < pages(m->size); i++)
		n += m->page[i] == ON_DEVICE ? extent(m, i) : 0;
	fake_unlock();
	return n;
}
