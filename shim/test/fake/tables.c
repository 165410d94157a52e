/*
 * The tables that a CUDA runtime asks the driver for by cuGetExportTable. NVIDIA does not
 * document them. The slots in use, and their arguments, were found by running the
 * runtimes of CUDA 10 and 11.1 on this driver. The purpose of some slots is known from
 * ZLUDA (MIT or Apache-2.0), of which no text is here. A slot or a table that none of the
 * runtimes called is refused. The table by which later runtimes make the driver prove its
 * origin is refused as well.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum { SLOTS = 64, SCRATCH = 1024 };

/* The primary context of a device, which lives from then on. */
static CUresult primary(CUcontext *ctx, CUdevice dev)
{
	return fake_cuDevicePrimaryCtxRetain(ctx, dev);
}

/* Room that a runtime reads tools' wishes from: there is no tool. */
static uint8_t scratch[2][SCRATCH];

static CUresult tools(int which, void **at, size_t *bytes)
{
	*at = scratch[which];
	*bytes = SCRATCH;
	return CUDA_SUCCESS;
}
static CUresult tools_first(void **at, size_t *bytes) { return tools(0, at, bytes); }
static CUresult tools_second(void **at, size_t *bytes) { return tools(1, at, bytes); }

/* Values that a runtime stores with a context, by a key of its own. */
static struct kept {
	CUcontext ctx;
	const void *key;
	void *value;
	struct kept *next;
} *all;

/* The context that is meant, of which a NULL is the current one. */
static CUcontext meant(CUcontext ctx)
{
	if (!ctx)
		fake_cuCtxGetCurrent(&ctx);
	return ctx;
}

static struct kept **slot_of(CUcontext ctx, const void *key)
{
	struct kept **at = &all;

	while (*at && ((*at)->ctx != ctx || (*at)->key != key))
		at = &(*at)->next;
	return at;
}

static CUresult keep(CUcontext ctx, const void *key, void *value, const void *at_end)
{
	struct kept *k = calloc(1, sizeof *k);

	*k = (struct kept){meant(ctx), key, value, NULL};
	if (!k->ctx) {
		free(k);
		return ERROR_INVALID_CONTEXT;
	}
	fake_lock();
	k->next = all;
	all = k;
	fake_unlock();
	return CUDA_SUCCESS;
}

static CUresult forget(CUcontext ctx, const void *key)
{
	fake_lock();
	struct kept **at = slot_of(meant(ctx), key), *k = *at;
	if (k)
		*at = k->next;
	fake_unlock();
	free(k);
	return k ? CUDA_SUCCESS : ERROR_INVALID_HANDLE;
}

static CUresult lookup(void **value, CUcontext ctx, const void *key)
{
	ctx = meant(ctx);
	if (!ctx)
		return ERROR_INVALID_CONTEXT;
	fake_lock();
	struct kept *k = *slot_of(ctx, key);
	if (k)
		*value = k->value;
	fake_unlock();
	return k ? CUDA_SUCCESS : ERROR_INVALID_HANDLE;
}

/* A slot that no runtime called so far is refused. The log names it by its table's place
 * in the list below and its number. */
static CUresult refuse(int table, int slot)
{
	char name[64];

	snprintf(name, sizeof name, "cuGetExportTable, table %d, slot %d", table, slot);
	return fake_log(name, CUDA_ERROR_NOT_SUPPORTED);
}

#define ONE(t, s) static CUresult refuse_##t##_##s(void) { return refuse(t, s); }
#define NAME(t, s) (void *)refuse_##t##_##s,
#define TEN(X, t, d) X(t, d##0) X(t, d##1) X(t, d##2) X(t, d##3) X(t, d##4) X(t, d##5) \
	X(t, d##6) X(t, d##7) X(t, d##8) X(t, d##9)
#define ALL(X, t) X(t, 0) X(t, 1) X(t, 2) X(t, 3) X(t, 4) X(t, 5) X(t, 6) X(t, 7) X(t, 8) X(t, 9) \
	TEN(X, t, 1) TEN(X, t, 2) TEN(X, t, 3) TEN(X, t, 4) TEN(X, t, 5) X(t, 60) X(t, 61) X(t, 62) X(t, 63)
ALL(ONE, 0) ALL(ONE, 1) ALL(ONE, 2) ALL(ONE, 3)
static void *const refusals[][SLOTS] = {
	{ALL(NAME, 0)}, {ALL(NAME, 1)}, {ALL(NAME, 2)}, {ALL(NAME, 3)},
};

/* Most tables have their size in the first slot. */
static const void *contexts[SLOTS] = {(void *)sizeof contexts, [2] = (void *)primary};
static const void *hooks[SLOTS] = {
	(void *)sizeof hooks, [2] = (void *)tools_first, [6] = (void *)tools_second,
};
static const void *storage[SLOTS] = {(void *)keep, (void *)forget, (void *)lookup};
static const void *nothing[SLOTS] = {(void *)sizeof nothing};

static const struct {
	uint8_t id[16];
	const void **slots;
} tables[] = {
	{{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9},
	 contexts},
	{{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66},
	 hooks},
	{{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93},
	 storage},
	/* Requested, but none of its slots was called. */
	{{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc},
	 nothing},
};

CUresult fake_cuGetExportTable(const void **table, const void *id)
{
	if (!table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		if (memcmp(tables[i].id, id, sizeof tables[i].id) == 0) {
			fake_lock();
			for (size_t k = 0; k < SLOTS; k++)
				if (!tables[i].slots[k])
					tables[i].slots[k] = refusals[i][k];
			fake_unlock();
			*table = tables[i].slots;
			return CUDA_SUCCESS;
		}
	*table = NULL;
	return CUDA_ERROR_NOT_FOUND;
}
