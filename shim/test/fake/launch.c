/*
 * Kernels, known by name. They run in the launch, on the pages that they
 * touch; pages that are missing are brought in slowly, as faults do.
 *
 *   fill(ptr, n, u32 value)   n bytes
 *   sum(ptr, n, out)          of n bytes, into a u64
 *   touch(ptr, n)             every page once
 *   spin(ns)                  keep the device busy
 *
 * and those of check/kernels.cu, on words of 32 bits:
 *
 *   pattern(ptr, words, m, b)       word i is i * m + b
 *   pass(ptr, words, a, c)          word is word * a + c
 *   compare(ptr, words, m, b, out)  add to a u64 how many are not i * m + b
 *   gemm(a, b, c, rows)             only reaches its matrices
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static uint64_t number(void **params, int i)
{
	return *(uint64_t *)params[i];
}

static CUresult fill(void **params, CUstream stream)
{
	CUdeviceptr ptr = number(params, 0);
	CUresult r = fake_reach(ptr, number(params, 1), stream);

	if (r == CUDA_SUCCESS)
		memset((void *)(uintptr_t)ptr, (int)*(uint32_t *)params[2], number(params, 1));
	return r;
}

static CUresult sum(void **params, CUstream stream)
{
	CUdeviceptr ptr = number(params, 0), out = number(params, 2);
	uint64_t n = number(params, 1), total = 0;
	CUresult r = fake_reach(ptr, n, stream);

	if (r == CUDA_SUCCESS)
		r = fake_reach(out, sizeof total, stream);
	if (r != CUDA_SUCCESS)
		return r;
	for (uint64_t i = 0; i < n; i++)
		total += ((const uint8_t *)(uintptr_t)ptr)[i];
	memcpy((void *)(uintptr_t)out, &total, sizeof total);
	return r;
}

static CUresult touch(void **params, CUstream stream)
{
	return fake_reach(number(params, 0), number(params, 1), stream);
}

static CUresult spin(void **params, CUstream stream)
{
	fake_occupy(stream, (int64_t)number(params, 0));
	return CUDA_SUCCESS;
}

static uint32_t word(void **params, int i)
{
	return *(uint32_t *)params[i];
}

static CUresult pattern(void **params, CUstream stream)
{
	uint32_t *p = (uint32_t *)(uintptr_t)number(params, 0);
	uint64_t n = number(params, 1);
	CUresult r = fake_reach((uintptr_t)p, 4 * n, stream);

	for (uint64_t i = 0; r == CUDA_SUCCESS && i < n; i++)
		p[i] = (uint32_t)i * word(params, 2) + word(params, 3);
	return r;
}

static CUresult pass(void **params, CUstream stream)
{
	uint32_t *p = (uint32_t *)(uintptr_t)number(params, 0);
	uint64_t n = number(params, 1);
	CUresult r = fake_reach((uintptr_t)p, 4 * n, stream);

	for (uint64_t i = 0; r == CUDA_SUCCESS && i < n; i++)
		p[i] = p[i] * word(params, 2) + word(params, 3);
	return r;
}

static CUresult compare(void **params, CUstream stream)
{
	const uint32_t *p = (const uint32_t *)(uintptr_t)number(params, 0);
	uint64_t n = number(params, 1), wrong = 0;
	uint64_t *out = (uint64_t *)(uintptr_t)number(params, 4);
	CUresult r = fake_reach((uintptr_t)p, 4 * n, stream);

	if (r == CUDA_SUCCESS)
		r = fake_reach((uintptr_t)out, sizeof *out, stream);
	for (uint64_t i = 0; r == CUDA_SUCCESS && i < n; i++)
		wrong += p[i] != (uint32_t)i * word(params, 2) + word(params, 3);
	if (r == CUDA_SUCCESS)
		*out += wrong;
	return r;
}

static CUresult gemm(void **params, CUstream stream)
{
	uint64_t bytes = 4ull * word(params, 3) * word(params, 3);
	CUresult r = CUDA_SUCCESS;

	for (int i = 0; r == CUDA_SUCCESS && i < 3; i++)
		r = fake_reach(number(params, i), bytes, stream);
	return r;
}

enum { PARAMS = 5 };

static const struct kernel {
	const char *name;
	CUresult (*run)(void **params, CUstream stream);
	uint8_t bytes[PARAMS]; /* of each parameter */
} kernels[] = {{"fill", fill, {8, 8, 4}}, {"sum", sum, {8, 8, 8}}, {"touch", touch, {8, 8}},
	     {"spin", spin, {8}}, {"pattern", pattern, {8, 8, 4, 4}}, {"pass", pass, {8, 8, 4, 4}},
	     {"compare", compare, {8, 8, 4, 4, 8}}, {"gemm", gemm, {8, 8, 8, 4}}};

/* The kernels of captured graphs, the first launch first. */
static struct recorded {
	void *graph;
	const struct kernel *kernel;
	uint64_t value[PARAMS];
	struct recorded *next;
} *recorded;

/* The caller holds the lock. */
static void record(void *graph, const struct kernel *k, void **params)
{
	struct recorded *r = calloc(1, sizeof *r), **at = &recorded;

	*r = (struct recorded){.graph = graph, .kernel = k};
	for (int i = 0; i < PARAMS && k->bytes[i]; i++)
		memcpy(&r->value[i], params[i], k->bytes[i]);
	while (*at)
		at = &(*at)->next;
	*at = r;
}

void fake_graph_forget(void *graph)
{
	for (struct recorded **at = &recorded; *at;) {
		struct recorded *r = *at;
		if (r->graph == graph) {
			*at = r->next;
			free(r);
		} else {
			at = &r->next;
		}
	}
}

CUresult fake_graph_replay(void *graph, CUstream stream)
{
	CUresult why = CUDA_SUCCESS;

	for (struct recorded *r = recorded; r && why == CUDA_SUCCESS; r = r->next) {
		void *params[PARAMS];
		for (int i = 0; i < PARAMS; i++)
			params[i] = &r->value[i];
		if (r->graph == graph)
			why = r->kernel->run(params, stream);
	}
	return why;
}

CUresult fake_cuModuleLoadData(void **module, const void *image)
{
	CUresult why;

	if (!fake_current(&why))
		return why;
	*module = (void *)kernels;
	return image ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuModuleUnload(void *module)
{
	return module == kernels ? CUDA_SUCCESS : ERROR_INVALID_HANDLE;
}

CUresult fake_cuModuleGetFunction(void **function, void *module, const char *name)
{
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
		if (strcmp(kernels[i].name, name) == 0) {
			*function = (void *)&kernels[i];
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult fake_cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			     unsigned by, unsigned bz, unsigned shared, CUstream stream,
			     void **params, void **extra)
{
	const struct kernel *k = f;
	CUresult why;

	if (!fake_current(&why))
		return why;
	if (!k)
		return ERROR_INVALID_HANDLE;
	fake_lock();
	CUresult r = CUDA_SUCCESS;
	if (fake_captured(stream))
		record(stream, k, params);
	else
		r = k->run(params, stream);
	fake_unlock();
	/* A kernel's fault is found when it runs, after the launch. */
	return r >= ERROR_ILLEGAL_ADDRESS && r <= ERROR_LAUNCH_FAILED ? CUDA_SUCCESS : r;
}

CUresult fake_cuLaunchKernelEx(const struct gw_launch *how, void *f, void **params, void **extra)
{
	if (!how)
		return CUDA_ERROR_INVALID_VALUE;
	return fake_cuLaunchKernel(f, how->grid[0], how->grid[1], how->grid[2], how->block[0],
				   how->block[1], how->block[2], how->shared, how->stream,
				   params, extra);
}

CUresult fake_cuLaunchCooperativeKernel(void *f, unsigned gx, unsigned gy, unsigned gz,
					unsigned bx, unsigned by, unsigned bz, unsigned shared,
					CUstream stream, void **params)
{
	return fake_cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params, NULL);
}
