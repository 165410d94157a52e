/*
 * The bytes of arrays, which are counted and limited, and never move.
 */
#include "hooks/obtain.h"

/* CUarray_format: bits that an element of one channel takes, or an element of all
 * channels. Block compression and the planes of a smaller size come to a part of a
 * byte. */
static const struct format {
	uint8_t first, last; /* of a range of formats */
	uint8_t bits;
	bool whole; /* all channels are in them */
} formats[] = {
	{0x01, 0x01, 8, false},  {0x02, 0x02, 16, false}, /* unsigned integers */
	{0x08, 0x08, 8, false},  {0x09, 0x09, 16, false}, /* signed ones */
	{0x10, 0x10, 16, false},                          /* half */
	{0x50, 0x50, 32, true},                           /* 10, 10, 10 and 2 bits */
	{0x51, 0x51, 16, true},  {0x52, 0x52, 32, true},  /* packed 4:2:2, 4:4:4 */
	{0x53, 0x53, 12, true},  {0x54, 0x54, 24, true},  /* 4:2:0, 8 and 16 bits */
	{0x55, 0x55, 16, true},  {0x56, 0x56, 32, true},  /* 4:2:2 */
	{0x57, 0x57, 24, true},  {0x58, 0x58, 48, true},  /* 4:4:4 */
	{0x59, 0x59, 12, true},  {0x5a, 0x5a, 24, true},  /* the same in planes */
	{0x5b, 0x5b, 16, true},  {0x5c, 0x5c, 32, true},
	{0x5d, 0x5d, 24, true},  {0x5e, 0x5e, 48, true},
	{0x91, 0x92, 4, true},   {0x93, 0x96, 8, true},   /* BC1, BC2 and BC3 */
	{0x97, 0x98, 4, true},   {0x99, 0x9e, 8, true},   /* BC4, BC5 to BC7 */
	{0x9f, 0xa1, 24, true},                           /* P010, P016 */
	{0xa2, 0xa2, 16, true},  {0xa3, 0xa4, 32, true},  /* NV16, P210, P216 */
	{0xa5, 0xa5, 16, true},  {0xa6, 0xa7, 32, true},  /* YUY2, Y210, Y216 */
	{0xa8, 0xa9, 32, true},  {0xb1, 0xb1, 64, true},  /* AYUV, Y410, Y416 */
	{0xb0, 0xb0, 12, true},                           /* NV12 */
	{0xb2, 0xb2, 24, true},  {0xb3, 0xb3, 48, true},  /* 4:4:4 in planes */
	{0xb4, 0xb4, 24, true},  {0xb5, 0xb5, 48, true},
	{0xc0, 0xc0, 8, true},   {0xc1, 0xc1, 16, true},  {0xc2, 0xc2, 32, true},
	{0xc3, 0xc3, 16, true},  {0xc4, 0xc4, 32, true},  {0xc5, 0xc5, 64, true},
	{0xc6, 0xc6, 8, true},   {0xc7, 0xc7, 16, true},  {0xc8, 0xc8, 32, true},
	{0xc9, 0xc9, 16, true},  {0xca, 0xca, 32, true},  {0xcb, 0xcb, 64, true},
};

/* A format that is not known takes four bytes a channel, which is the most. */
static uint64_t element_bits(int format, unsigned channels)
{
	const struct format *f = formats, *end = formats + sizeof formats / sizeof *formats;

	while (f < end && (format < f->first || format > f->last))
		f++;
	if (f < end && f->whole)
		return f->bits;
	return (f < end ? f->bits : 32) * (uint64_t)(channels ? channels : 1);
}

/* cuArrayGetMemoryRequirements has the size only of arrays with deferred mapping,
 * so it is computed from the description. Those, and sparse ones, are made without
 * memory: the handles that are mapped into them count. */
uint64_t gw_array_bytes(const struct gw_array3d *d)
{
	if (d->flags & (ARRAY_SPARSE | ARRAY_DEFERRED_MAPPING))
		return 0;
	uint64_t n = d->width * (d->height ? d->height : 1) * (d->depth ? d->depth : 1);
	uint64_t bits = element_bits(d->format, d->channels);

	return n / 8 * bits + (n % 8 * bits + 7) / 8;
}

uint64_t gw_array2d_bytes(const struct gw_array2d *d)
{
	return gw_array_bytes(&(struct gw_array3d){
		.width = d->width, .height = d->height, .format = d->format, .channels = d->channels,
	});
}

/* The levels of a mipmap together take a third more than the first. */
uint64_t gw_mipmap_bytes(const struct gw_array3d *d, unsigned levels)
{
	uint64_t first = gw_array_bytes(d);

	return levels > 1 ? first + first / 3 : first;
}
