/*
 * What a program looks up in the driver, by whatever way: an audit library of the
 * loader (LD_AUDIT), which is called for every binding to libcuda, of linked
 * symbols as of dlsym, and puts itself before cuGetProcAddress to see the names
 * there. GPUWHISK_TRACE names the file that gets a line for each:
 *
 *   object PATH                       a file that the program loaded
 *   linked NAME                       a call bound by the loader
 *   dlsym NAME
 *   asked BASE VERSION FLAGS NAME AT  of the export whose pointer came back,
 *                                     "?" if it is no export, "-" if none came,
 *                                     and its place in the driver's file
 *
 * An address that a linked program takes of a function is bound without a call
 * here: those are read from the objects.
 *
 * It lives in a namespace of its own, with a C library that the program's
 * threads do not know: nothing here needs more of it than a system call.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../src/driver/abi.h"

#define EXPORT __attribute__((visibility("default")))

static int out = -1;
static fn_cuGetProcAddress *v1;
static fn_cuGetProcAddress_v2 *v2;

struct line {
	char text[1024];
	size_t n;
};

static void word(struct line *l, const char *w)
{
	if (l->n)
		l->text[l->n++] = ' ';
	while (*w && l->n < sizeof l->text - 2)
		l->text[l->n++] = *w++;
}

static void number(struct line *l, uint64_t v)
{
	char digits[24];
	size_t i = sizeof digits - 1;

	digits[i] = 0;
	do
		digits[--i] = (char)('0' + v % 10);
	while (v /= 10);
	word(l, digits + i);
}

static void end(struct line *l)
{
	l->text[l->n++] = '\n';
	if (out >= 0 && write(out, l->text, l->n) < 0)
		out = -1;
}

static const char *name_of(void *p, uint64_t *at)
{
	Dl_info i;

	*at = 0;
	if (!p)
		return "-";
	if (!dladdr(p, &i))
		return "?";
	*at = (uint64_t)((char *)p - (char *)i.dli_fbase);
	return i.dli_saddr == p && i.dli_sname ? i.dli_sname : "?";
}

static CUresult first(const char *symbol, void **pfn, int version, uint64_t flags);
static CUresult second(const char *symbol, void **pfn, int version, uint64_t flags, int *status);

/* Record the outcome of a lookup; stay before cuGetProcAddress where that is what
 * was looked up. */
static void record(const char *symbol, void **pfn, int version, uint64_t flags, CUresult r)
{
	struct line l = {.n = 0};
	void *got = r == CUDA_SUCCESS && pfn ? *pfn : NULL;
	uint64_t at;
	const char *name = name_of(got, &at);

	word(&l, "asked");
	word(&l, symbol ? symbol : "-");
	number(&l, (uint64_t)version);
	number(&l, flags);
	word(&l, name);
	number(&l, at);
	end(&l);
	if (!got || !symbol || strcmp(symbol, "cuGetProcAddress") != 0)
		return;
	if (version >= 12000) {
		v2 = (fn_cuGetProcAddress_v2 *)got;
		*pfn = (void *)second;
	} else {
		v1 = (fn_cuGetProcAddress *)got;
		*pfn = (void *)first;
	}
}

static CUresult first(const char *symbol, void **pfn, int version, uint64_t flags)
{
	CUresult r = v1(symbol, pfn, version, flags);

	record(symbol, pfn, version, flags, r);
	return r;
}

static CUresult second(const char *symbol, void **pfn, int version, uint64_t flags, int *status)
{
	CUresult r = v2(symbol, pfn, version, flags, status);

	record(symbol, pfn, version, flags, r);
	return r;
}

EXPORT unsigned la_version(unsigned version)
{
	const char *path = getenv("GPUWHISK_TRACE");

	if (path)
		out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	return version < LAV_CURRENT ? version : LAV_CURRENT;
}

static bool is_driver(const char *path)
{
	const char *file = strrchr(path, '/');

	return strncmp(file ? file + 1 : path, "libcuda.so", 10) == 0;
}

EXPORT unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
	struct line l = {.n = 0};

	if (map->l_name[0]) {
		word(&l, "object");
		word(&l, map->l_name);
		end(&l);
	}
	*cookie = is_driver(map->l_name);
	return LA_FLG_BINDFROM | (*cookie ? LA_FLG_BINDTO : 0);
}

EXPORT uintptr_t la_symbind64(ElfW(Sym) *symbol, unsigned index, uintptr_t *from,
			      uintptr_t *to, unsigned *flags, const char *name)
{
	struct line l = {.n = 0};

	*flags |= LA_SYMB_NOPLTENTER | LA_SYMB_NOPLTEXIT;
	if (*from || name[0] != 'c' || name[1] != 'u') /* the driver's own use of itself */
		return symbol->st_value;
	word(&l, *flags & LA_SYMB_DLSYM ? "dlsym" : "linked");
	word(&l, name);
	end(&l);
	if (strcmp(name, "cuGetProcAddress") == 0) {
		v1 = (fn_cuGetProcAddress *)symbol->st_value;
		return (uintptr_t)first;
	}
	if (strcmp(name, "cuGetProcAddress_v2") == 0) {
		v2 = (fn_cuGetProcAddress_v2 *)symbol->st_value;
		return (uintptr_t)second;
	}
	return symbol->st_value;
}
