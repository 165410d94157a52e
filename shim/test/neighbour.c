/*
 * Other libraries in LD_PRELOAD, as they are found in the wild. Which one is
 * chosen by a macro.
 *
 * EXPORTS   wraps an export for linked programs, by RTLD_NEXT
 * LOOKUP    answers dlsym itself, without a tail jump
 * MIDDLE    wraps a function of libc by RTLD_NEXT: the one that a dlsym
 *           override without a tail jump sends into a loop
 * EARLY     looks things up in its constructor
 * LOADED    is loaded by a program, and its constructor calls the function of the
 *           program's at the address AT_LOAD: with the dynamic linker's lock held
 *
 * Each prints a line at the end, so that the runner sees that it took part.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#else
#define OLDEST "GLIBC_2.2.5"
#endif

typedef unsigned long long ptr;
typedef int free_fn(ptr);

static int calls;

#if defined(EXPORTS)

/* Looks behind itself by RTLD_NEXT and, as some do, at the driver directly. */
int cuMemFree_v2(ptr p)
{
	free_fn *next = (free_fn *)dlsym(RTLD_NEXT, "cuMemFree_v2");
	free_fn *direct = (free_fn *)dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "cuMemFree_v2");

	calls++;
	return (calls % 2 ? next : direct)(p);
}

#elif defined(LOOKUP)

static free_fn *real_free;

static int free_memory(ptr p)
{
	calls++;
	return real_free(p);
}

void *dlsym(void *handle, const char *name)
{
	static void *(*real)(void *, const char *);

	if (!real)
		real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", OLDEST);
	if (strcmp(name, "cuMemFree_v2") == 0 && handle != RTLD_NEXT) {
		real_free = (free_fn *)real(handle, name);
		return (void *)free_memory;
	}
	return real(handle, name);
}

#elif defined(MIDDLE)

time_t time(time_t *out)
{
	time_t (*next)(time_t *) = (time_t(*)(time_t *))dlsym(RTLD_NEXT, "time");
	time_t (*versioned)(time_t *) =
		(time_t(*)(time_t *))dlvsym(RTLD_NEXT, "time", OLDEST);

	calls++;
	return versioned && versioned == time ? -1 : next(out);
}

__attribute__((constructor)) static void use(void)
{
	time(NULL);
}

#elif defined(EARLY)

__attribute__((constructor)) static void early(void)
{
	calls += dlsym(RTLD_DEFAULT, "getpid") != NULL;
	calls += dlsym(RTLD_NEXT, "getpid") != NULL;
	calls += dlsym(dlopen(NULL, RTLD_LAZY), "getpid") != NULL;
	calls += dlsym(RTLD_DEFAULT, "cuNoSuchThing") == NULL;
	calls += dlsym(RTLD_DEFAULT, "no such thing") == NULL;
}

#elif defined(LOADED)

__attribute__((constructor)) static void call_program(void)
{
	void (*function)(void) = (void (*)(void))strtoul(getenv("AT_LOAD"), NULL, 0);

	function();
}

#endif

__attribute__((destructor)) static void report(void)
{
	if (calls)
		dprintf(1, "neighbour took part\n");
}
