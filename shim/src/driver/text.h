/*
 * Names compared without the C library, whose functions others may have replaced or
 * a sanitizer instruments.
 */
#ifndef GW_TEXT_H
#define GW_TEXT_H

#include <stdbool.h>

static inline bool gw_equal(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static inline bool gw_has_prefix(const char *text, const char *with)
{
	while (*with && *text == *with)
		text++, with++;
	return !*with;
}

#endif
