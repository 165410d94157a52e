/* A library in the place of the shim that hooks one way of looking functions up: WAY. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

static void hook(void) {}

static void *real(void *handle, const char *name)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
	void *(*f)(void *, const char *) = NULL;

	for (int i = 0; i < 3 && !f; i++)
		f = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	return f(handle, name);
}

static int asked(const char *name, void **found, int version, uint64_t flags, int *status)
{
	*found = (void *)hook;
	return 0;
}

void *dlsym(void *handle, const char *name)
{
	int asks = strncmp(name, "cuGetProcAddress", 16) == 0;
	int memory = strncmp(name, "cuMem", 5) == 0;

	if (strcmp(WAY, "dlsym") == 0)
		return memory ? (void *)hook : real(handle, name);
	return asks ? (void *)asked : real(handle, name);
}
