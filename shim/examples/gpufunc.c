/*
 * The same for an executable: allocate, touch, launch, look. A process of its
 * own per run keeps nothing.
 *
 *   cc -o exec gpufunc.c -ldl
 *
 * Its argument is the JSON of its parameters, as an action's executable gets
 * it: "bytes" of memory (64 MiB) and "ms" to stay there (0), which stand for the
 * work that a real function does. It prints a line of JSON. The kernels come
 * with the file named by the environment variable PTX, or, on the fake driver,
 * by their names alone.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *cuda;

static int fail(const char *call, int code)
{
	printf("{\"error\": \"%s: %d\"}\n", call, code);
	return 1;
}

#define CALL(name, types, ...)                                      \
	do {                                                        \
		int(*f_) types = (int(*) types)dlsym(cuda, #name);  \
		int code_ = f_ ? f_(__VA_ARGS__) : 500;             \
		if (code_)                                          \
			return fail(#name, code_);                  \
	} while (0)

static const char *kernels(void)
{
	static char text[1 << 16];
	const char *path = getenv("PTX");
	FILE *f = path ? fopen(path, "r") : NULL;

	if (!f)
		return "";
	text[fread(text, 1, sizeof text - 1, f)] = 0;
	fclose(f);
	return text;
}

/* number finds a key's whole number in JSON without nesting. */
static uint64_t number(const char *json, const char *key, uint64_t otherwise)
{
	const char *at = strstr(json, key);

	if (!at || !(at = strchr(at + strlen(key), ':')))
		return otherwise;
	return strtoull(at + 1, NULL, 10);
}

static void stay(uint64_t ms)
{
	struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	nanosleep(&t, NULL);
}

int main(int argc, char **argv)
{
	const char *parameters = argc > 1 ? argv[1] : "{}";
	void *context, *module, *fill;
	uint64_t block, n = number(parameters, "\"bytes\"", 64 << 20);
	uint32_t value = 7;
	unsigned char last = 0;
	void *args[] = {&block, &n, &value};

	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	if (!cuda)
		return fail("dlopen", 0);
	CALL(cuInit, (unsigned), 0);
	CALL(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
	CALL(cuCtxSetCurrent, (void *), context);
	CALL(cuMemAlloc_v2, (uint64_t *, size_t), &block, n);
	CALL(cuModuleLoadData, (void **, const void *), &module, kernels());
	CALL(cuModuleGetFunction, (void **, void *, const char *), &fill, module, "fill");
	CALL(cuLaunchKernel,
	     (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
	      void *, void **, void **),
	     fill, 256, 1, 1, 256, 1, 1, 0, NULL, args, NULL);
	stay(number(parameters, "\"ms\"", 0));
	CALL(cuMemcpyDtoH_v2, (void *, uint64_t, size_t), &last, block + n - 1, 1);
	CALL(cuMemFree_v2, (uint64_t), block);
	printf("{\"bytes\": %llu, \"correct\": %s}\n", (unsigned long long)n,
	       last == value ? "true" : "false");
	return 0;
}
