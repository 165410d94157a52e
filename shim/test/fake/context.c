/*
 * Devices and contexts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

struct fake fake = {.mu = PTHREAD_MUTEX_INITIALIZER};

static struct fake_context *contexts;
static struct fake_context *primary[DEVICES];

/* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*: libraries ask for at least 3.5. */
enum { COMPUTE_MAJOR = 75, COMPUTE_MINOR = 76 };

enum { DEPTH = 32 };
static __thread struct fake_context *stack[DEPTH];
static __thread int depth;

void fake_lock(void)
{
	pthread_mutex_lock(&fake.mu);
	for (int i = 0; i < fake.devices; i++)
		if (fake_stolen(i))
			fake_evict_stolen();
}

void fake_unlock(void) { pthread_mutex_unlock(&fake.mu); }

static uint64_t number(const char *name, uint64_t fallback)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 10) : fallback;
}

void fake_configure(void)
{
	fake.devices = (int)number("FAKE_CUDA_DEVICES", 1);
	if (fake.devices > DEVICES)
		fake.devices = DEVICES;
	fake.capacity = number("FAKE_CUDA_MEMORY", 16ull << 30);
	fake.bandwidth = number("FAKE_CUDA_BANDWIDTH", 0);
	fake.bandwidth_out = number("FAKE_CUDA_BANDWIDTH_OUT", fake.bandwidth);
	fake.bandwidth_first = number("FAKE_CUDA_BANDWIDTH_FIRST", fake.bandwidth_out);
	fake.fault_ns = number("FAKE_CUDA_FAULT_NS", 0);
	fake.order_ns = number("FAKE_CUDA_ORDER_NS", 0);
	fake.pin_ns = number("FAKE_CUDA_PIN_NS", 0);
	fake.pinnable = number("FAKE_CUDA_PINNABLE", 0);
	fake.pitch = number("FAKE_CUDA_PITCH", 512);
	fake.pool_chunk = number("FAKE_CUDA_POOL_CHUNK", 4096);
	fake.concurrent = number("FAKE_CUDA_CONCURRENT", 1);
	fake.moved_fault = (CUresult)number("FAKE_CUDA_MOVED", 0);
	fake.managed_fault = (CUresult)number("FAKE_CUDA_MANAGED", 0);
	fake_usage_open();
}

/* CUDA is of no use to a child of a process that has begun with it. */
static bool forked;
static void record_fork(void) { forked = true; }

CUresult fake_cuInit(unsigned flags)
{
	if (forked)
		return ERROR_NOT_INITIALIZED;
	fake_lock();
	if (!fake.initialized)
		pthread_atfork(NULL, NULL, record_fork);
	if (!fake.initialized)
		fake_configure();
	fake.initialized = true;
	fake_unlock();
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

struct fake_context *fake_current(CUresult *why)
{
	struct fake_context *c = depth ? stack[depth - 1] : NULL;

	*why = CUDA_SUCCESS;
	if (!fake.initialized || forked)
		*why = ERROR_NOT_INITIALIZED;
	else if (!c)
		*why = ERROR_INVALID_CONTEXT;
	else if (!c->alive)
		*why = ERROR_CONTEXT_DESTROYED;
	else
		*why = c->fault;
	return *why ? NULL : c;
}

static bool device_ok(CUdevice dev)
{
	return fake.initialized && dev >= 0 && dev < fake.devices;
}

/* The caller holds the lock. */
static struct fake_context *make(CUdevice dev)
{
	struct fake_context *c = calloc(1, sizeof *c);

	c->device = dev;
	c->alive = true;
	c->refs = 1;
	c->next = contexts;
	contexts = c;
	return c;
}

static bool exists(const struct fake_context *c)
{
	for (const struct fake_context *x = contexts; x; x = x->next)
		if (x == c)
			return c->alive;
	return false;
}

static void end(struct fake_context *c)
{
	c->alive = false;
	fake_delete_of(c);
	if (c->primary) {
		primary[c->device] = NULL;
		fake_pool_end(c->device);
	}
}

CUresult fake_cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	if (!device_ok(dev) || !ctx)
		return ERROR_INVALID_DEVICE;
	fake_lock();
	if (primary[dev]) {
		primary[dev]->refs++;
	} else {
		primary[dev] = make(dev);
		primary[dev]->primary = true;
	}
	*ctx = primary[dev];
	fake_unlock();
	return CUDA_SUCCESS;
}

static CUresult release(CUdevice dev, bool reset)
{
	if (!device_ok(dev))
		return ERROR_INVALID_DEVICE;
	fake_lock();
	struct fake_context *c = primary[dev];
	if (c && (reset || --c->refs == 0))
		end(c);
	fake_unlock();
	return c || reset ? CUDA_SUCCESS : ERROR_INVALID_CONTEXT;
}

CUresult fake_cuDevicePrimaryCtxRelease(CUdevice dev) { return release(dev, false); }
CUresult fake_cuDevicePrimaryCtxRelease_v2(CUdevice dev) { return release(dev, false); }
CUresult fake_cuDevicePrimaryCtxReset(CUdevice dev) { return release(dev, true); }
CUresult fake_cuDevicePrimaryCtxReset_v2(CUdevice dev) { return release(dev, true); }

CUresult fake_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active)
{
	if (!device_ok(dev))
		return ERROR_INVALID_DEVICE;
	fake_lock();
	*flags = 0;
	*active = primary[dev] != NULL;
	fake_unlock();
	return CUDA_SUCCESS;
}

/* A green context runs on a part of the device. Memory allocated below it belongs to the
 * primary context, which lives at least as long as the green one. */
CUresult fake_cuGreenCtxCreate(void **green, void *desc, CUdevice dev, unsigned flags)
{
	CUcontext ctx;
	CUresult r = fake_cuDevicePrimaryCtxRetain(&ctx, dev);

	if (r != CUDA_SUCCESS)
		return r;
	fake_lock();
	struct fake_context *c = make(dev);
	c->of = ctx;
	fake_unlock();
	*green = &c->refs; /* no context by itself */
	return CUDA_SUCCESS;
}

static struct fake_context *green_context(void *green)
{
	for (struct fake_context *c = contexts; c; c = c->next)
		if (&c->refs == green && c->of && c->alive)
			return c;
	return NULL;
}

CUresult fake_cuCtxFromGreenCtx(CUcontext *ctx, void *green)
{
	fake_lock();
	*ctx = green_context(green);
	fake_unlock();
	return *ctx ? CUDA_SUCCESS : ERROR_INVALID_HANDLE;
}

CUresult fake_cuGreenCtxDestroy(void *green)
{
	fake_lock();
	struct fake_context *c = green_context(green);
	if (c)
		c->alive = false;
	fake_unlock();
	return c ? release(c->device, false) : ERROR_INVALID_HANDLE;
}

static void push(struct fake_context *c)
{
	if (depth < DEPTH)
		stack[depth++] = c;
}

CUresult fake_cuCtxCreate_v2(CUcontext *ctx, unsigned flags, CUdevice dev)
{
	if (!device_ok(dev) || !ctx)
		return ERROR_INVALID_DEVICE;
	fake_lock();
	*ctx = make(dev);
	fake_unlock();
	push(*ctx);
	return CUDA_SUCCESS;
}

CUresult fake_cuCtxCreate_v3(CUcontext *ctx, void *affinity, int n, unsigned flags, CUdevice dev)
{
	return fake_cuCtxCreate_v2(ctx, flags, dev);
}

CUresult fake_cuCtxCreate_v4(CUcontext *ctx, void *how, unsigned flags, CUdevice dev)
{
	return fake_cuCtxCreate_v2(ctx, flags, dev);
}

CUresult fake_cuCtxDestroy_v2(CUcontext ctx)
{
	fake_lock();
	bool ok = exists(ctx);
	if (ok)
		end(ctx);
	fake_unlock();
	if (ok && depth && stack[depth - 1] == ctx)
		depth--;
	return ok ? CUDA_SUCCESS : ERROR_INVALID_CONTEXT;
}

CUresult fake_cuCtxDestroy(CUcontext ctx) { return fake_cuCtxDestroy_v2(ctx); }

CUresult fake_cuCtxGetCurrent(CUcontext *ctx)
{
	*ctx = depth ? stack[depth - 1] : NULL;
	return CUDA_SUCCESS;
}

CUresult fake_cuCtxSetCurrent(CUcontext ctx)
{
	if (depth)
		depth--;
	if (ctx)
		push(ctx);
	return CUDA_SUCCESS;
}

CUresult fake_cuCtxPushCurrent_v2(CUcontext ctx)
{
	fake_lock();
	bool ok = exists(ctx);
	fake_unlock();
	if (!ok)
		return ERROR_INVALID_CONTEXT;
	push(ctx);
	return CUDA_SUCCESS;
}

CUresult fake_cuCtxPopCurrent_v2(CUcontext *ctx)
{
	if (!depth)
		return ERROR_INVALID_CONTEXT;
	depth--;
	if (ctx)
		*ctx = stack[depth];
	return CUDA_SUCCESS;
}

CUresult fake_cuCtxGetApiVersion(CUcontext ctx, unsigned *version)
{
	fake_lock();
	bool ok = exists(ctx);
	fake_unlock();
	*version = 3020;
	return ok ? CUDA_SUCCESS : ERROR_INVALID_CONTEXT;
}

/* For tests, by dlsym: a runtime ends a primary context by a table of its own. */
__attribute__((visibility("default"))) CUresult fake_reset_unseen(int dev);
CUresult fake_reset_unseen(int dev) { return release(dev, true); }

CUresult fake_cuCtxGetDevice(CUdevice *dev)
{
	CUresult why;
	struct fake_context *c = fake_current(&why);

	if (c)
		*dev = c->device;
	return why;
}

CUresult fake_cuDriverGetVersion(int *version)
{
	*version = fake_generation * 1000 + (fake_generation < 13 ? 80 : 0);
	return CUDA_SUCCESS;
}

CUresult fake_cuGetErrorName(int code, const char **text)
{
	*text = code ? "CUDA_ERROR_OF_THE_FAKE_DRIVER" : "CUDA_SUCCESS";
	return CUDA_SUCCESS;
}

CUresult fake_cuGetErrorString(int code, const char **text)
{
	*text = code ? "error of the fake driver" : "no error";
	return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGet(CUdevice *dev, int ordinal)
{
	*dev = ordinal;
	return device_ok(ordinal) ? CUDA_SUCCESS : ERROR_INVALID_DEVICE;
}

CUresult fake_cuDeviceGetCount(int *n)
{
	*n = fake.devices;
	return fake.initialized ? CUDA_SUCCESS : ERROR_NOT_INITIALIZED;
}

CUresult fake_cuDeviceGetName(char *name, int n, CUdevice dev)
{
	snprintf(name, (size_t)n, "Fake GPU %d", dev);
	return device_ok(dev) ? CUDA_SUCCESS : ERROR_INVALID_DEVICE;
}

CUresult fake_cuDeviceGetAttribute(int *value, int attribute, CUdevice dev)
{
	*value = attribute == COMPUTE_MAJOR ? 8 : attribute == COMPUTE_MINOR ? 0 :
		 attribute == CONCURRENT_MANAGED_ACCESS ? fake.concurrent : 1;
	return device_ok(dev) ? CUDA_SUCCESS : ERROR_INVALID_DEVICE;
}

CUresult fake_cuDeviceGetUuid(void *uuid, CUdevice dev)
{
	if (!device_ok(dev))
		return ERROR_INVALID_DEVICE;
	memset(uuid, 0, 16);
	*(unsigned char *)uuid = (unsigned char)dev;
	return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGetUuid_v2(void *uuid, CUdevice dev)
{
	return fake_cuDeviceGetUuid(uuid, dev);
}

CUresult fake_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	*bytes = fake.capacity;
	return device_ok(dev) ? CUDA_SUCCESS : ERROR_INVALID_DEVICE;
}

CUresult fake_cuMemGetInfo_v2(size_t *avail, size_t *total)
{
	CUresult why;
	struct fake_context *c = fake_current(&why);

	if (!c)
		return why;
	fake_lock();
	uint64_t used = fake_in_use(c->device);
	if (total)
		*total = fake.capacity;
	if (avail)
		*avail = used < fake.capacity ? fake.capacity - used : 0;
	fake_unlock();
	return CUDA_SUCCESS;
}
