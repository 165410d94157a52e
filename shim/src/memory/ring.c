#include "memory/ring.h"

#include <string.h>
#include <sys/mman.h>

#include "driver/resolve.h"

enum { BUFFERS = 4, BUFFER = 4 << 20 };

static uint8_t *ring; /* NULL: not made yet */
static bool refused;

CUresult gw_copy_order(const struct gw_copy *c)
{
	return c->out ? GW_CALL(cuMemcpyDtoHAsync_v2, c->host, c->device, c->bytes, c->stream) :
			GW_CALL(cuMemcpyHtoDAsync_v2, c->device, c->host, c->bytes, c->stream);
}

static bool make_ring(void)
{
	enum { PORTABLE = 1 };

	if (ring || refused)
		return ring;
	void *p = mmap(NULL, BUFFERS * BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	if (p != MAP_FAILED &&
	    GW_CALL(cuMemHostRegister_v2, p, BUFFERS * BUFFER, PORTABLE) == CUDA_SUCCESS) {
		madvise(p, BUFFERS * BUFFER, MADV_DONTFORK);
		ring = p;
	} else if (p != MAP_FAILED) {
		munmap(p, BUFFERS * BUFFER);
	}
	refused = !ring;
	return ring;
}

/* The k-th buffer's share of a copy: between the device and the ring. */
static struct gw_copy share(const struct gw_copy *c, uint64_t k)
{
	uint64_t from = k * BUFFER, rest = c->bytes - from;

	return (struct gw_copy){
		.device = c->device + from, .host = ring + k % BUFFERS * BUFFER,
		.bytes = rest < BUFFER ? rest : BUFFER, .out = c->out, .stream = c->stream,
	};
}

/* Wait until a buffer's share has gone over the link, and take it on to the host. */
static CUresult end_share(const struct gw_copy *c, uint64_t k, void *event)
{
	struct gw_copy s = share(c, k);
	CUresult r = GW_CALL(cuEventSynchronize, event);

	if (r == CUDA_SUCCESS && c->out)
		memcpy(c->host + k * BUFFER, s.host, s.bytes);
	return r;
}

static CUresult begin_share(const struct gw_copy *c, uint64_t k, void *event)
{
	struct gw_copy s = share(c, k);

	if (!c->out)
		memcpy(s.host, c->host + k * BUFFER, s.bytes);
	CUresult r = gw_copy_order(&s);
	return r == CUDA_SUCCESS ? GW_CALL(cuEventRecord, event, c->stream) : r;
}

static CUresult copy_with(const struct gw_copy *c, void **event)
{
	uint64_t n = (c->bytes + BUFFER - 1) / BUFFER, begun = 0, ended = 0;
	CUresult r = CUDA_SUCCESS;

	while (r == CUDA_SUCCESS && ended < n) {
		if (begun < n && begun - ended < BUFFERS) {
			r = begin_share(c, begun, event[begun % BUFFERS]);
			begun++;
		} else {
			r = end_share(c, ended, event[ended % BUFFERS]);
			ended++;
		}
	}
	if (r != CUDA_SUCCESS)
		GW_CALL(cuStreamSynchronize, c->stream); /* the ring is in use until then */
	return r;
}

CUresult gw_ring_copy(const struct gw_copy *c)
{
	enum { SLEEP_WITHOUT_TIMES = 1 | 2 }; /* flags of an event */
	void *event[BUFFERS] = {NULL};
	CUresult r = CUDA_SUCCESS;

	if (!make_ring())
		return gw_copy_order(c);
	for (int i = 0; r == CUDA_SUCCESS && i < BUFFERS; i++)
		r = GW_CALL(cuEventCreate, &event[i], SLEEP_WITHOUT_TIMES);
	if (r == CUDA_SUCCESS)
		r = copy_with(c, event);
	for (int i = 0; i < BUFFERS && event[i]; i++)
		GW_CALL(cuEventDestroy_v2, event[i]);
	return r;
}
