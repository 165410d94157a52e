#include "hooks/physical.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FABRIC = 64 }; /* CUmemFabricHandle */

/* The memory that this process has exported, by the identity of the export. An import of it
 * in this process is told by that. */
struct identity {
	int type;
	int fd;
	dev_t dev; /* of the descriptor's file: the program may close it, and get the */
	ino_t ino; /* number again for another one */
	char fabric[FABRIC];
};
struct export {
	struct identity of;
	uint64_t memory;
	struct export *next;
};

static struct export *exports;

void gw_forget_exports(uint64_t memory)
{
	for (struct export **at = &exports; *at;) {
		struct export *e = *at;
		if (e->memory == memory) {
			*at = e->next;
			free(e);
		} else {
			at = &e->next;
		}
	}
}

/* Set out to the identity of the shared memory: a descriptor as it is given to an import,
 * or a fabric handle's bytes. Returns false if the memory cannot be identified. */
static bool identify(int type, const void *shared, struct identity *out)
{
	struct stat st;

	memset(out, 0, sizeof *out); /* the gaps, too */
	out->type = type;
	if (type == SHARED_BY_FABRIC) {
		memcpy(out->fabric, shared, FABRIC);
		return true;
	}
	out->fd = (int)(intptr_t)shared;
	if (type != SHARED_BY_DESCRIPTOR || fstat(out->fd, &st) < 0)
		return false;
	out->dev = st.st_dev;
	out->ino = st.st_ino;
	return true;
}

static struct export *find_export(const struct identity *of)
{
	struct export *e = exports;

	while (e && memcmp(&e->of, of, sizeof *of))
		e = e->next;
	return e;
}

void gw_record_export(int type, const void *shared, uint64_t memory)
{
	struct identity of;

	/* An export writes the descriptor's number, an import takes it as the pointer. */
	if (type == SHARED_BY_DESCRIPTOR)
		shared = (const void *)(intptr_t)*(const int *)shared;
	if (!identify(type, shared, &of))
		return;
	struct export *e = find_export(&of);
	if (!e && (e = malloc(sizeof *e))) {
		*e = (struct export){.next = exports};
		memcpy(&e->of, &of, sizeof of);
		exports = e;
	}
	if (e)
		e->memory = memory;
}

uint64_t gw_exported_memory(int type, const void *shared)
{
	struct identity of;
	struct export *e = identify(type, shared, &of) ? find_export(&of) : NULL;

	return e ? e->memory : 0;
}
