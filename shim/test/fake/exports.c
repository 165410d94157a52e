/*
 * The exports, and cuGetProcAddress over them. Each entry point exists twice,
 * so that cuGetProcAddress can give other pointers than dlsym, as it may.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

/* The code of an entry point that no test needs. */
#define fake_none(...) CUDA_ERROR_NOT_SUPPORTED

#define ENTRY(export, as, params, args)                                    \
	__attribute__((visibility("default"))) CUresult export params      \
	{                                                                  \
		CUresult r = fake_fails(#export);                          \
		return fake_log(#export, r ? r : fake_##as args);      \
	}                                                                  \
	static CUresult split_##export params                              \
	{                                                                  \
		CUresult r = fake_fails(#export);                          \
		return fake_log(#export, r ? r : fake_##as args);      \
	}
#define HOOK(base, export, version, flags, class, what, params, args) \
	ENTRY(export, export, params, args)
#define GATE(base, export, version, flags, as, params, args) ENTRY(export, as, params, args)
#define CALL(base, export, version, params, args) ENTRY(export, export, params, args)
#define SERVE(base, export, version, params, args) ENTRY(export, export, params, args)
#include "../../abi.def"

static const struct entry {
	const char *base, *export;
	int version, flags;
	void *plain, *split;
} entries[] = {
#define HOOK(base, export, version, flags, class, what, params, args) \
	{#base, #export, version, flags, (void *)export, (void *)split_##export},
#define GATE(base, export, version, flags, as, params, args) \
	{#base, #export, version, flags, (void *)export, (void *)split_##export},
#define CALL(base, export, version, params, args) \
	{#base, #export, version, 0, (void *)export, (void *)split_##export},
#define SERVE(base, export, version, params, args) \
	{#base, #export, version, 0, (void *)export, (void *)split_##export},
#include "../../abi.def"
};

static bool better(const struct entry *e, const struct entry *best, uint64_t flags)
{
	bool per_thread = flags & STREAM;

	if (e->flags == STREAM && !per_thread)
		return false;
	if (!best)
		return true;
	if (e->version != best->version)
		return e->version > best->version;
	return e->flags > best->flags;
}

static void *lookup(const char *name, int version, uint64_t flags)
{
	const struct entry *best = NULL;
	const char *split = getenv("FAKE_CUDA_SPLIT");

	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
		const struct entry *e = &entries[i];
		if (strcmp(e->base, name) == 0 && e->version <= version &&
		    e->version < (fake_generation + 1) * 1000 && better(e, best, flags))
			best = e;
	}
	if (!best)
		return NULL;
	return split && *split == '1' ? best->split : best->plain;
}

CUresult fake_cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags)
{
	if (!symbol || !pfn)
		return CUDA_ERROR_INVALID_VALUE;
	*pfn = lookup(symbol, version, flags);
	return *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult fake_cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
				  uint64_t flags, int *status)
{
	CUresult r = fake_cuGetProcAddress(symbol, pfn, version, flags);

	if (status)
		*status = r == CUDA_SUCCESS ? 0 : 1;
	return r;
}
