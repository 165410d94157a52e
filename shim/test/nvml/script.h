/* The script of the management library, and settings of the environment. */
#ifndef FAKE_NVML_SCRIPT_H
#define FAKE_NVML_SCRIPT_H

#include <stdbool.h>

/* A number of the environment. */
long long number(const char *name, long long fallback);
/* Go through the script's lines that begin with this; the nth that is about the
 * device (-1 for any) gives its numbers. False: there is none. */
bool line(const char *word, int device, int nth, long long *a, long long *b);
/* The script has a function, by its name without "nvml", answer that it is not supported. */
bool unsupported(const char *function);

#endif
