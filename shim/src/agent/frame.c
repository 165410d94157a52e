#include "agent/frame.h"

static uint64_t number(const uint8_t *p, int bytes)
{
	uint64_t v = 0;

	for (int i = bytes; i-- > 0;)
		v = v << 8 | p[i];
	return v;
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

/* Returns the place behind the number. */
static uint8_t *put(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++, v >>= 8)
		*p++ = (uint8_t)v;
	return p;
}

size_t gw_frame_write(uint8_t *buf, enum gw_type type, uint64_t epoch, const struct gw_fields *f)
{
	size_t bytes = GW_HEADER + 4 * f->n_words + 8 * f->n_numbers;
	uint8_t *p = put(buf, bytes, 4);

	p = put(p, type, 2);
	p = put(p, 0, 2);
	p = put(p, epoch, 8);
	for (unsigned i = 0; i < f->n_words; i++)
		p = put(p, f->words[i], 4);
	for (unsigned i = 0; i < f->n_numbers; i++)
		p = put(p, f->numbers[i], 8);
	return bytes;
}
