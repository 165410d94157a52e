/*
 * A program on another C library, for musl-gcc: preloaded into it, the shim
 * loads, does nothing and disturbs nothing. Exit 0 is a pass.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *thread(void *arg)
{
	return arg;
}

static int child(void)
{
	int status = 1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, &status, 0);
	return status;
}

int main(int argc, char **argv)
{
	void *self = dlopen(NULL, RTLD_NOW), *back = NULL;
	pthread_t t;

	/* A static program cannot look anything up. */
	if (argc < 2 && (!self || dlsym(self, "puts") != (void *)puts))
		return 1;
	if (self && dlsym(self, "no_such_symbol"))
		return 2;
	if (dlopen("libno-such-library.so", RTLD_NOW) || !dlerror())
		return 3;
	if (pthread_create(&t, NULL, thread, argv) || pthread_join(t, &back) || back != argv)
		return 4;
	return child() ? 5 : 0;
}
