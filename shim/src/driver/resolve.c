/*
 * This file runs before main, before our constructor and before a sanitizer's
 * runtime is ready; it is built without instrumentation and calls nothing of
 * libc that others may have replaced.
 */
#include "driver/resolve.h"

#include <dlfcn.h>
#include <elf.h>

typedef void *dlsym_fn(void *, const char *);
typedef void *dlvsym_fn(void *, const char *, const char *);

/* Where our dlsym and dlvsym jump to. Read by tail.S. */
#define SHARED_WITH_TAIL __attribute__((visibility("hidden")))
SHARED_WITH_TAIL dlsym_fn *gw_dlsym;
SHARED_WITH_TAIL dlvsym_fn *gw_dlvsym;

static void *slots[GW_ENTRIES];
static bool linked[GW_ENTRIES]; /* the slot came from RTLD_NEXT */

/* The hooked libraries and our handles to them. */
struct library {
	const char *file;
	void *handle;
};
static struct library cuda = {"libcuda.so.1", NULL}, nvml = {"libnvidia-ml.so.1", NULL};

static struct library *library_of(int id) { return id < GW_CUDA_ENTRIES ? &cuda : &nvml; }

static const char *file_of(const char *path)
{
	const char *file = path;

	for (; *path; path++)
		if (*path == '/')
			file = path + 1;
	return file;
}

/* The dynamic section's address, which glibc has relocated or not. */
static const void *at(const struct link_map *map, ElfW(Addr) p)
{
	return (const void *)(p < map->l_addr ? p + map->l_addr : p);
}

static void *find_by_hash(const struct link_map *map, const uint32_t *hash,
			  const ElfW(Sym) *symbols, const char *strings,
			  const char *name)
{
	uint32_t h = 5381, buckets = hash[0], first = hash[1], bloom = hash[2];
	const uint32_t *bucket = hash + 4 + bloom * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = bucket + buckets;

	for (const char *c = name; *c; c++)
		h = h * 33 + (unsigned char)*c;
	uint32_t i = buckets ? bucket[h % buckets] : 0;
	if (i < first)
		return NULL;
	for (;; i++) {
		const ElfW(Sym) *s = symbols + i;
		uint32_t c = chain[i - first];
		if ((c | 1) == (h | 1) && gw_equal(strings + s->st_name, name) &&
		    s->st_shndx != SHN_UNDEF && (s->st_info & 15) == STT_FUNC)
			return (void *)(map->l_addr + s->st_value);
		if (c & 1)
			return NULL;
	}
}

static void *find_in(const struct link_map *map, const char *name)
{
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;
	const uint32_t *hash = NULL;

	for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			symbols = at(map, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRTAB)
			strings = at(map, d->d_un.d_ptr);
		else if (d->d_tag == DT_GNU_HASH)
			hash = at(map, d->d_un.d_ptr);
	}
	if (!symbols || !strings || !hash)
		return NULL;
	return find_by_hash(map, hash, symbols, strings, name);
}

/*
 * Both references are weak: the library must load into a program on musl too,
 * which ends programs over a symbol that is missing. musl has the same list of
 * libraries, under the other name.
 */
extern struct r_debug *_dl_debug_addr;
#pragma weak _r_debug
#pragma weak _dl_debug_addr

const struct link_map *gw_libraries(void)
{
	if (&_r_debug)
		return _r_debug.r_map;
	return &_dl_debug_addr && _dl_debug_addr ? _dl_debug_addr->r_map : NULL;
}

static bool musl;

/*
 * libc's own dlsym or dlvsym. We export both names, so no reference of ours
 * could mean libc's; its symbol table is read instead. Up to glibc 2.33 they
 * lie in libdl.
 */
static void *find_in_libc(const char *name)
{
	void *found = NULL;

	for (const struct link_map *m = gw_libraries(); m && !found; m = m->l_next) {
		const char *file = file_of(m->l_name ? m->l_name : "");
		bool other = gw_has_prefix(file, "ld-musl-") || gw_has_prefix(file, "libc.musl-");
		if (other || gw_has_prefix(file, "libc.so.6") || gw_has_prefix(file, "libdl.so.2"))
			found = find_in(m, name);
		musl = found && other;
	}
	return found;
}

/* Where no dlsym is to be found, a lookup finds nothing. */
static void *no_dlsym(void *handle, const char *name)
{
	return NULL;
}

static void *no_dlvsym(void *handle, const char *name, const char *version)
{
	return NULL;
}

/* The next dlsym after ours: another interposer's if there is one. Asked for
 * without a version, because theirs has none, as ours. */
static void find_next(void)
{
	dlsym_fn *libc = (dlsym_fn *)find_in_libc("dlsym");
	dlvsym_fn *vsym = NULL;
	dlsym_fn *sym = NULL;

	if (libc) {
		vsym = (dlvsym_fn *)libc(RTLD_NEXT, "dlvsym");
		sym = (dlsym_fn *)libc(RTLD_NEXT, "dlsym");
	}
	if (!sym)
		sym = libc ? libc : no_dlsym;
	__atomic_store_n(&gw_dlvsym, vsym ? vsym : no_dlvsym, __ATOMIC_RELEASE);
	__atomic_store_n(&gw_dlsym, sym, __ATOMIC_RELEASE);
}

__attribute__((constructor)) void gw_resolve_begin(void)
{
	if (!__atomic_load_n(&gw_dlsym, __ATOMIC_ACQUIRE))
		find_next();
}

bool gw_libc_supported(void)
{
	gw_resolve_begin();
	return !musl && __atomic_load_n(&gw_dlsym, __ATOMIC_ACQUIRE) != no_dlsym;
}

void *gw_next_dlsym(void *handle, const char *name)
{
	gw_resolve_begin();
	return __atomic_load_n(&gw_dlsym, __ATOMIC_ACQUIRE)(handle, name);
}

void *gw_next_dlvsym(void *handle, const char *name, const char *version)
{
	gw_resolve_begin();
	return gw_dlvsym(handle, name, version);
}

/*
 * A library is never loaded by us, but once the program has loaded it we hold
 * it, so that our pointers stay good when the program closes it.
 */
static void *held(struct library *l)
{
	void *h = __atomic_load_n(&l->handle, __ATOMIC_ACQUIRE);

	if (!h) {
		h = dlopen(l->file, RTLD_NOLOAD | RTLD_LAZY);
		if (h)
			__atomic_store_n(&l->handle, h, __ATOMIC_RELEASE);
	}
	return h;
}

void *gw_driver(void) { return held(&cuda); }

static void *cache_entry(int id, void *found)
{
	void *none = NULL;

	if (!found)
		return NULL;
	if (__atomic_compare_exchange_n(&slots[id], &none, found, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return found;
	return none; /* another thread was first */
}

/* The shim's own code: where it begins and ends, by the linker. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static bool is_own(const void *function)
{
	return (uintptr_t)function >= (uintptr_t)__ehdr_start &&
	       (uintptr_t)function < (uintptr_t)_end;
}

/* For a program that is linked with the library: the next definition after ours in the
 * program's search order. */
static void *resolve_linked(int id)
{
	void *p = gw_next_dlsym(RTLD_NEXT, gw_entries[id].export);

	if (!p || is_own(p))
		return NULL;
	linked[id] = true;
	return cache_entry(id, p);
}

/* A program that loads the library by hand goes to it directly, so must we: another
 * interposer's exports expect programs that are linked. */
static void *find(int id, void *handle)
{
	if (!handle)
		return resolve_linked(id);
	void *p = gw_next_dlsym(handle, gw_entries[id].export);
	return is_own(p) ? NULL : cache_entry(id, p);
}

void *gw_real(int id)
{
	void *p = __atomic_load_n(&slots[id], __ATOMIC_ACQUIRE);

	if (p)
		return p;
	struct library *l = library_of(id);
	void *handle = __atomic_load_n(&l->handle, __ATOMIC_ACQUIRE);
	p = find(id, handle);
	if (!p && !handle && (handle = held(l)))
		p = find(id, handle);
	return p;
}

void gw_find_driver(void)
{
	for (int id = 0; id < GW_CUDA_ENTRIES; id++)
		if (!__atomic_load_n(&slots[id], __ATOMIC_ACQUIRE))
			find(id, __atomic_load_n(&cuda.handle, __ATOMIC_ACQUIRE));
}

void *gw_real_linked(int id) { return linked[id] ? slots[id] : NULL; }

bool gw_found(int id, void *function)
{
	if (!held(library_of(id)))
		return false;
	cache_entry(id, function);
	return true;
}
