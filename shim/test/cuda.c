#include <dlfcn.h>
#include <string.h>

#include "prog.h"

struct cuda cu;

#ifdef LINKED
#define HOOK(base, export, version, flags, class, what, params, args) CUresult export params;
#define GATE(base, export, version, flags, as, params, args) CUresult export params;
#define CALL(base, export, version, params, args) CUresult export params;
#define SERVE(base, export, version, params, args) CUresult export params;
#include "../abi.def"

static void linked(void)
{
#define HOOK(base, export, version, flags, class, what, params, args) cu.export = export;
#define GATE(base, export, version, flags, as, params, args) cu.export = export;
#define CALL(base, export, version, params, args) cu.export = export;
#define SERVE(base, export, version, params, args) cu.export = export;
#include "../abi.def"
}
#else
static void linked(void) {}
#endif

static void *library(void)
{
	void *h = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	CHECK(h != NULL);
	return h;
}

static void by_dlsym(void)
{
	void *h = library();

#define HOOK(base, export, version, flags, class, what, params, args) \
	cu.export = (fn_##export *)dlsym(h, #export);
#define GATE(base, export, version, flags, as, params, args) \
	cu.export = (fn_##export *)dlsym(h, #export);
#define CALL(base, export, version, params, args) cu.export = (fn_##export *)dlsym(h, #export);
#define SERVE(base, export, version, params, args) cu.export = (fn_##export *)dlsym(h, #export);
#include "../abi.def"
}

static fn_cuGetProcAddress *v1;
static fn_cuGetProcAddress_v2 *v2;

static void *ask(const char *base, int version, int flags)
{
	void *p = NULL;
	int status;

	if (v2)
		v2(base, &p, version, (uint64_t)flags, &status);
	else
		v1(base, &p, version, (uint64_t)flags);
	return p;
}

static void by_address(bool second)
{
	void *h = library();

	if (second)
		CHECK((v2 = (fn_cuGetProcAddress_v2 *)dlsym(h, "cuGetProcAddress_v2")));
	else
		CHECK((v1 = (fn_cuGetProcAddress *)dlsym(h, "cuGetProcAddress")));
#define HOOK(base, export, version, flags, class, what, params, args) \
	cu.export = (fn_##export *)ask(#base, version, flags);
#define GATE(base, export, version, flags, as, params, args) \
	cu.export = (fn_##export *)ask(#base, version, flags);
#define CALL(base, export, version, params, args) \
	cu.export = (fn_##export *)ask(#base, version, 0);
#define SERVE(base, export, version, params, args) \
	cu.export = (fn_##export *)ask(#base, version, 0);
#include "../abi.def"
}

void cuda_begin(void)
{
	CUcontext ctx;

	OK(cu.cuInit(0));
	OK(cu.cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cu.cuCtxSetCurrent(ctx));
}

void cuda_open(const char *route)
{
	if (strcmp(route, "linked") == 0)
		linked();
	else if (strcmp(route, "dlsym") == 0)
		by_dlsym();
	else
		by_address(strcmp(route, "gpa2") == 0);
	CHECK(cu.cuInit != NULL);
	cuda_begin();
}

static void *reporter(const char *name)
{
	void *h = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
	void *f = h ? dlsym(h, name) : NULL;

	CHECK(f != NULL);
	dlclose(h);
	return f;
}

size_t in_use(void)
{
	unsigned long long (*report)(int) =
		(unsigned long long (*)(int))reporter("fake_report_used");

	return report(0);
}

size_t lies_there(CUdeviceptr ptr, size_t bytes)
{
	unsigned long long (*report)(CUdeviceptr, size_t) =
		(unsigned long long (*)(CUdeviceptr, size_t))reporter("fake_report_range");

	return report(ptr, bytes);
}

size_t pinned(void)
{
	unsigned long long (*report)(void) =
		(unsigned long long (*)(void))reporter("fake_report_pinned");

	return report();
}

struct link link_of(int to_device)
{
	struct link l;
	void (*report)(int, void *) = (void (*)(int, void *))reporter("fake_report_link");

	report(to_device, &l);
	return l;
}

size_t counts_as_used(void)
{
	size_t avail, total;

	OK(cu.cuMemGetInfo_v2(&avail, &total));
	return total - avail;
}

void pattern_write(CUdeviceptr at, size_t n, unsigned seed)
{
	uint32_t *buf = malloc(n);

	for (size_t i = 0; i < n / 4; i++)
		buf[i] = (uint32_t)i * 2654435761u + seed;
	OK(cu.cuMemcpyHtoD_v2(at, buf, n));
	free(buf);
}

void pattern_check(CUdeviceptr at, size_t n, unsigned seed)
{
	uint32_t *buf = malloc(n);

	memset(buf, 0xa5, n);
	OK(cu.cuMemcpyDtoH_v2(buf, at, n));
	for (size_t i = 0; i < n / 4; i++)
		if (buf[i] != (uint32_t)i * 2654435761u + seed)
			SAME(buf[i], (uint32_t)i * 2654435761u + seed);
	free(buf);
}
