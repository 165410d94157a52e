#include "agent/frame.h"

static uint64_t number(const uint8_t *p, int bytes)
{
	uint64_t v = 0;

	for (int i = bytes; i-- > 0;)
		v = v << 8 | p[i];
	return v;
}

static void put(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++, v >>= 8)
		p[i] = (uint8_t)v;
}

/* Returns the minimum payload of a command, -1 if the type is no command. */
static int least_payload(unsigned type)
{
	switch (type) {
	case GW_HELLO:
	case GW_LIMIT:
	case GW_PREFETCH:
		return 16;
	case GW_EVICT:
	case GW_ARENA:
		return 8;
	case GW_GATE:
		return 4;
	case GW_REPORT:
	case GW_PING:
		return 0;
	}
	return -1;
}

static void read_payload(const uint8_t *p, size_t len, struct gw_command *out)
{
	switch (out->type) {
	case GW_HELLO:
		out->word = (uint32_t)number(p, 4);
		out->bytes = number(p + 8, 8);
		break;
	case GW_GATE:
		out->word = (uint32_t)number(p, 4);
		break;
	case GW_PREFETCH:
		out->ns = number(p + 8, 8);
		out->bytes = number(p, 8);
		break;
	case GW_LIMIT:
		for (size_t i = 0; i < 4; i++)
			out->limit[i] = number(p + 8 * (len < 32 ? i % 2 : i), 8);
		break;
	case GW_EVICT:
	case GW_ARENA:
		out->bytes = number(p, 8);
		break;
	default:
		break;
	}
}

int gw_frame_read(const uint8_t *buf, size_t len, struct gw_command *out)
{
	*out = (struct gw_command){0};
	if (len < 4)
		return 0;
	uint64_t frame = number(buf, 4);
	if (frame < GW_HEADER || frame > GW_FRAME_MAX)
		return -1;
	if (len < frame)
		return 0;
	unsigned type = (unsigned)number(buf + 4, 2);
	int least = least_payload(type);
	if (least < 0)
		return (int)frame;
	if (frame < (uint64_t)(GW_HEADER + least))
		return -1;
	out->type = type;
	out->epoch = number(buf + 8, 8);
	read_payload(buf + GW_HEADER, (size_t)frame - GW_HEADER, out);
	return (int)frame;
}

void gw_frame_begin(struct gw_frame *f, enum gw_type type, uint64_t epoch)
{
	put(f->buf + 4, type, 2);
	put(f->buf + 6, 0, 2);
	put(f->buf + 8, epoch, 8);
	f->len = GW_HEADER;
}

void gw_frame_u32(struct gw_frame *f, uint32_t v)
{
	put(f->buf + f->len, v, 4);
	f->len += 4;
}

void gw_frame_u64(struct gw_frame *f, uint64_t v)
{
	put(f->buf + f->len, v, 8);
	f->len += 8;
}

void gw_frame_end(struct gw_frame *f)
{
	put(f->buf, f->len, 4);
}
