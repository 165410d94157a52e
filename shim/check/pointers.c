/*
 * Prints which pointers the driver gives for an entry point by dlsym and by
 * cuGetProcAddress, and whose functions they are. There is a line of JSON for each line
 * of abi.def:
 *
 *   base, export, version, flags, hook   as in abi.def; hook: the shim hooks it
 *   plain                                by dlsym(export)
 *   asked                                by cuGetProcAddress(base, version, flags)
 *   newest                               the same for the driver's own version
 *
 * The last three have the pointer (is), its file (of), its place in the file (at) and the
 * name of its export (name), which is "?" if it is not exported. One function may have
 * several names, so its place identifies it. If the driver has no function, they are {}.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../src/driver/abi.h"

static void *driver;
static fn_cuGetProcAddress *v1;
static fn_cuGetProcAddress_v2 *v2;
static int newest;

static void *ask(const char *base, int version, int flags)
{
	void *p = NULL;
	int status = 0;
	CUresult r = CUDA_ERROR_NOT_FOUND;

	if (v2)
		r = v2(base, &p, version, (uint64_t)flags, &status);
	else if (v1)
		r = v1(base, &p, version, (uint64_t)flags);
	return r == CUDA_SUCCESS ? p : NULL;
}

static const char *file_of(const Dl_info *i)
{
	const char *slash = i->dli_fname ? strrchr(i->dli_fname, '/') : NULL;

	return slash ? slash + 1 : i->dli_fname ? i->dli_fname : "";
}

static void print(const char *what, void *p)
{
	Dl_info i = {0};
	bool known = p && dladdr(p, &i);

	printf(", \"%s\": {", what);
	if (p)
		printf("\"is\": \"%p\", \"of\": \"%s\", \"name\": \"%s\", \"at\": %llu", p,
		       known ? file_of(&i) : "?", known && i.dli_saddr == p ? i.dli_sname : "?",
		       known ? (unsigned long long)((char *)p - (char *)i.dli_fbase) : 0ull);
	printf("}");
}

static void line(const char *base, const char *export, int version, int flags, bool hook)
{
	printf("{\"base\": \"%s\", \"export\": \"%s\", \"version\": %d, \"flags\": %d, \"hook\": %s",
	       base, export, version, flags, hook ? "true" : "false");
	print("plain", dlsym(driver, export));
	print("asked", ask(base, version, flags));
	print("newest", ask(base, newest > version ? newest : version, flags));
	printf("}\n");
}

static int refuse(const char *what)
{
	printf("{\"error\": \"%s\"}\n", what);
	return 1;
}

int main(void)
{
	fn_cuInit *init;
	fn_cuDriverGetVersion *version;

	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!driver)
		return refuse("libcuda.so.1 cannot be loaded");
	init = (fn_cuInit *)dlsym(driver, "cuInit");
	version = (fn_cuDriverGetVersion *)dlsym(driver, "cuDriverGetVersion");
	v1 = (fn_cuGetProcAddress *)dlsym(driver, "cuGetProcAddress");
	v2 = (fn_cuGetProcAddress_v2 *)dlsym(driver, "cuGetProcAddress_v2");
	if (!init || init(0) != CUDA_SUCCESS || !version || version(&newest) != CUDA_SUCCESS)
		return refuse("the driver does not start");
#define HOOK(base, export, version, flags, class, what, params, args) \
	line(#base, #export, version, flags, true);
#define CALL(base, export, version, params, args) line(#base, #export, version, 0, false);
#define SERVE(base, export, version, params, args) line(#base, #export, version, 0, false);
#include "../abi.def"
	return 0;
}
