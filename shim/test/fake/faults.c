/*
 * Failures on demand, and the log of calls.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

enum { RULES = 16 };

static struct {
	pthread_mutex_t mu;
	bool read;
	struct {
		char name[64];
		int nth, code, seen;
	} rule[RULES];
	int rules, log;
	char raises[64]; /* the call that raises a signal */
	int signal;
} faults = {.mu = PTHREAD_MUTEX_INITIALIZER, .log = -1};

int64_t fake_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The caller holds the lock. */
static void read_rules(void)
{
	const char *text = getenv("FAKE_CUDA_FAIL");
	const char *log = getenv("FAKE_CUDA_LOG");

	const char *raises = getenv("FAKE_CUDA_RAISE");

	faults.read = true;
	if (raises && sscanf(raises, "%63[^:]:%d", faults.raises, &faults.signal) != 2)
		faults.signal = 0;
	if (log && *log)
		faults.log = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	while (text && *text && faults.rules < RULES) {
		int i = faults.rules, n = 0;
		if (sscanf(text, "%63[^:]:%d:%d%n", faults.rule[i].name,
			   &faults.rule[i].nth, &faults.rule[i].code, &n) != 3)
			return;
		faults.rules++;
		text += n;
		text += *text == ',';
	}
}

CUresult fake_fails(const char *name)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&faults.mu);
	if (!faults.read)
		read_rules();
	for (int i = 0; i < faults.rules; i++) {
		if (strcmp(faults.rule[i].name, name))
			continue;
		int seen = ++faults.rule[i].seen;
		if (!faults.rule[i].nth || faults.rule[i].nth == seen)
			r = faults.rule[i].code;
	}
	int raised = strcmp(faults.raises, name) ? 0 : faults.signal;
	pthread_mutex_unlock(&faults.mu);
	if (raised)
		raise(raised);
	return r;
}

CUresult fake_log(const char *name, CUresult r)
{
	char line[160];

	if (faults.log < 0)
		return r;
	int n = snprintf(line, sizeof line, "{\"ns\":%lld,\"pid\":%d,\"call\":\"%s\",\"result\":%d}\n",
			 (long long)fake_now(), (int)getpid(), name, r);
	if (write(faults.log, line, (size_t)n) != n)
		faults.log = -1;
	return r;
}
