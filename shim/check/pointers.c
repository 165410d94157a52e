/*
 * Reads orders, one on each line, about the pointers that the driver gives for the lines of
 * abi.def by dlsym and by cuGetProcAddress. It answers each with a line of JSON:
 *
 *   differ  {"rows": [[export, by dlsym, by cuGetProcAddress, export of the latter]]} of the
 *           lines with two pointers, or with none one way
 *   newer   {"rows": [[base, export]]} of hooked functions that the driver has in a newer
 *           version than the lines; "?" stands for a function that is not exported
 *   count   {"answered": lookups of hooked functions that have a pointer}
 *   past    {"shim": those lookups whose pointer is in SHIM, "rows": [[export, way, file]] of
 *           the other ones}
 *
 * Its first line, without an order, is {}.
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

#define SHIM "libgpuwhisk.so"

static const struct line {
	const char *base, *export;
	int version, flags;
	bool hook;
} lines[] = {
#define HOOK(base, export, version, flags, class, what, params, args) \
	{#base, #export, version, flags, true},
#define CALL(base, export, version, params, args) {#base, #export, version, 0, false},
#define SERVE(base, export, version, params, args) {#base, #export, version, 0, false},
#include "../abi.def"
};

enum { LINES = sizeof lines / sizeof lines[0] };

#define EACH(l) for (const struct line *l = lines; l < lines + LINES; l++)

static void *plain(const struct line *l) { return dlsym(driver, l->export); }

static void *asked(const struct line *l) { return ask(l->base, l->version, l->flags); }

static const char *file_of(void *p)
{
	Dl_info i;

	if (!dladdr(p, &i) || !i.dli_fname)
		return "?";
	const char *slash = strrchr(i.dli_fname, '/');
	return slash ? slash + 1 : i.dli_fname;
}

static const char *export_of(void *p)
{
	Dl_info i;

	return p && dladdr(p, &i) && i.dli_saddr == p ? i.dli_sname : "?";
}

static const char *text(void *p)
{
	static char texts[2][24];
	static int which;

	which = !which;
	snprintf(texts[which], sizeof texts[which], "%p", p);
	return p ? texts[which] : "none";
}

static const char *comma = "";

/* Print a row of an answer. */
static void row(int n, const char *const cells[])
{
	printf("%s[", comma);
	for (int i = 0; i < n; i++)
		printf("%s\"%s\"", i ? ", " : "", cells[i]);
	printf("]");
	comma = ", ";
}

#define ROW(...) \
	row(sizeof (const char *[]){__VA_ARGS__} / sizeof(char *), (const char *[]){__VA_ARGS__})

static void differ(void)
{
	printf("{\"rows\": [");
	EACH(l) {
		void *p = plain(l), *a = asked(l);
		if (p != a || !p)
			ROW(l->export, text(p), text(a), a ? export_of(a) : "");
	}
	printf("]}\n");
}

/* Report whether a line has this function. Under other names it is the same function. */
static bool known(void *p)
{
	EACH(l)
		if (plain(l) == p || asked(l) == p)
			return true;
	return false;
}

static void newer(void)
{
	static void *seen[LINES];
	int n = 0;

	printf("{\"rows\": [");
	EACH(l) {
		void *p = l->hook && newest > l->version ? ask(l->base, newest, l->flags) : NULL;
		bool found = !p || known(p);
		for (int i = 0; i < n && !found; i++)
			found = seen[i] == p;
		if (!found) {
			seen[n++] = p;
			ROW(l->base, export_of(p));
		}
	}
	printf("]}\n");
}

static void count(void)
{
	int answered = 0;

	EACH(l)
		answered += l->hook ? !!plain(l) + !!asked(l) : 0;
	if (answered)
		printf("{\"answered\": %d}\n", answered);
	else
		printf("{\"error\": \"the driver has none of the functions\"}\n");
}

static int from_shim(const struct line *l, const char *way, void *p)
{
	if (!p)
		return 0;
	if (strcmp(file_of(p), SHIM) == 0)
		return 1;
	ROW(l->export, way, file_of(p));
	return 0;
}

static void past(void)
{
	int shim = 0;

	printf("{\"rows\": [");
	EACH(l)
		if (l->hook)
			shim += from_shim(l, "dlsym", plain(l)) + from_shim(l, "cuGetProcAddress", asked(l));
	printf("], \"shim\": %d}\n", shim);
}

static int refuse(const char *what)
{
	printf("{\"error\": \"%s\"}\n", what);
	return 1;
}

static void execute(const char *verb)
{
	comma = "";
	if (strcmp(verb, "differ") == 0)
		differ();
	else if (strcmp(verb, "newer") == 0)
		newer();
	else if (strcmp(verb, "count") == 0)
		count();
	else if (strcmp(verb, "past") == 0)
		past();
	else
		refuse("unknown order");
	fflush(stdout);
}

int main(void)
{
	fn_cuInit *init;
	fn_cuDriverGetVersion *version;
	char line[128], verb[32];

	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!driver)
		return refuse("libcuda.so.1 cannot be loaded");
	init = (fn_cuInit *)dlsym(driver, "cuInit");
	version = (fn_cuDriverGetVersion *)dlsym(driver, "cuDriverGetVersion");
	v1 = (fn_cuGetProcAddress *)dlsym(driver, "cuGetProcAddress");
	v2 = (fn_cuGetProcAddress_v2 *)dlsym(driver, "cuGetProcAddress_v2");
	if (!init || init(0) != CUDA_SUCCESS || !version || version(&newest) != CUDA_SUCCESS)
		return refuse("the driver does not start");
	printf("{}\n");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin))
		if (sscanf(line, "%31s", verb) == 1)
			execute(verb);
	return 0;
}
