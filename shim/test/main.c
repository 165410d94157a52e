/*
 * shimtest CASE [ARGUMENT...]: run one case under the shim, which the caller
 * preloads. Exit 0 is a pass. Without arguments: list the cases.
 */
#include <string.h>

#include "prog.h"

static const struct test_case *const groups[] = {
	cases_move, cases_memory, cases_process, cases_context, cases_conn, cases_fault, cases_truth,
	cases_refusal, cases_way, cases_limit, cases_nvml, cases_handles, cases_vmm, cases_own,
	cases_random, cases_arena,
};

int main(int argc, char **argv)
{
	for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
		for (const struct test_case *c = groups[g]; c->name; c++) {
			if (argc < 2) {
				puts(c->name);
			} else if (strcmp(c->name, argv[1]) == 0) {
				c->run(argc - 2, argv + 2);
				return 0;
			}
		}
	return argc < 2 ? 0 : 2;
}
