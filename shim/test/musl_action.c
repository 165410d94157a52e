/*
 * An action on musl, in the place of one that was built on Alpine: what is
 * preloaded into it, and whether it finds a driver.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	const char *preload = getenv("LD_PRELOAD");

	printf("{\"preload\": \"%s\", \"driver\": %s}\n", preload ? preload : "",
	       dlopen("libcuda.so.1", RTLD_NOW) ? "true" : "false");
	return 0;
}
