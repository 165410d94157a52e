#include "agent/frame.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are copied as they are");

struct header {
	uint32_t bytes;
	uint16_t type, flags;
	uint64_t epoch;
};

/* The least payload of each command. */
static const size_t least[] = {
	[GW_HELLO] = 16, [GW_LIMIT] = 16, [GW_PREFETCH] = 16, [GW_EVICT] = 8,
	[GW_REPORT] = 0, [GW_GATE] = 4,   [GW_PING] = 0,      [GW_ARENA] = 8,
};
enum { COMMANDS_END = sizeof least / sizeof *least };

int gw_frame_read(const uint8_t *buf, size_t len, struct gw_command *out)
{
	struct header h = {0};

	*out = (struct gw_command){0};
	if (len < sizeof h.bytes)
		return 0;
	memcpy(&h, buf, len < sizeof h ? len : sizeof h);
	if (h.bytes < GW_HEADER || h.bytes > GW_FRAME_MAX)
		return -1;
	if (len < h.bytes)
		return 0;
	if (h.type < GW_HELLO || h.type >= COMMANDS_END)
		return (int)h.bytes;
	size_t payload = h.bytes - GW_HEADER;
	if (payload < least[h.type])
		return -1;
	out->type = h.type;
	out->epoch = h.epoch;
	memcpy(out->field, buf + GW_HEADER, payload < sizeof out->field ? payload : sizeof out->field);
	out->word = (uint32_t)out->field[0];
	if (h.type == GW_LIMIT && payload < sizeof out->field)
		memcpy(&out->field[2], out->field, 2 * sizeof *out->field);
	return (int)h.bytes;
}

size_t gw_frame_write(uint8_t *buf, enum gw_type type, uint64_t epoch, const struct gw_fields *f)
{
	size_t words = f->n_words * sizeof *f->words, numbers = f->n_numbers * sizeof *f->numbers;
	struct header h = {
		.bytes = (uint32_t)(GW_HEADER + words + numbers), .type = (uint16_t)type,
		.epoch = epoch,
	};

	memcpy(buf, &h, sizeof h);
	memcpy(buf + sizeof h, f->words, words);
	memcpy(buf + sizeof h + words, f->numbers, numbers);
	return h.bytes;
}
