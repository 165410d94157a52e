/*
 * An action on musl, as it would be built on Alpine: it reports the libraries preloaded
 * into it, and whether it finds a driver.
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
