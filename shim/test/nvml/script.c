#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long long number(const char *name, long long fallback)
{
	const char *text = getenv(name);

	return text && *text ? atoll(text) : fallback;
}

bool line(const char *word, int device, int nth, long long *a, long long *b)
{
	const char *path = getenv("FAKE_NVML_SCRIPT");
	FILE *f = path ? fopen(path, "r") : NULL;
	char text[256], first[64];
	bool found = false;

	while (f && !found && fgets(text, sizeof text, f)) {
		long long d = 0, x = 0, y = 0;
		if (sscanf(text, "%63s %lld %lld %lld", first, &d, &x, &y) < 2 ||
		    strcmp(first, word) || d != device || nth--)
			continue;
		*a = x;
		*b = y;
		found = true;
	}
	if (f)
		fclose(f);
	return found;
}

bool unsupported(const char *function)
{
	const char *path = getenv("FAKE_NVML_SCRIPT");
	FILE *f = path ? fopen(path, "r") : NULL;
	char text[256], word[64], name[128];
	bool found = false;

	while (f && !found && fgets(text, sizeof text, f))
		found = sscanf(text, "%63s %127s", word, name) == 2 &&
			strcmp(word, "unsupported") == 0 && strcmp(name, function) == 0;
	if (f)
		fclose(f);
	return found;
}
