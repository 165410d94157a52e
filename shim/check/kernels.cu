/*
 * The kernels of the check. kernels.h is made from this file and kept, so
 * that neither a compiler for the GPU nor CUDA is needed:
 *
 *   make kernels          clang with the NVPTX target
 *
 * A block's words are always i * m + b for its index i: filling, any number of
 * passes and the comparison agree on m and b, and every byte is checked.
 */
typedef unsigned int u32;
typedef unsigned long long u64;

#define KERNEL extern "C" __attribute__((global)) void

static inline __attribute__((device)) u64 first(void)
{
	return (u64)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() +
	       __nvvm_read_ptx_sreg_tid_x();
}

static inline __attribute__((device)) u64 stride(void)
{
	return (u64)__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x();
}

KERNEL pattern(u32 *p, u64 n, u32 m, u32 b)
{
	for (u64 i = first(); i < n; i += stride())
		p[i] = (u32)i * m + b;
}

/* One pass over the block: a stage of an FFT reads and writes all data, too. */
KERNEL pass(u32 *p, u64 n, u32 a, u32 c)
{
	for (u64 i = first(); i < n; i += stride())
		p[i] = p[i] * a + c;
}

KERNEL compare(const u32 *p, u64 n, u32 m, u32 b, u64 *out)
{
	u64 wrong = 0;

	for (u64 i = first(); i < n; i += stride())
		wrong += p[i] != (u32)i * m + b;
	if (wrong)
		__nvvm_atom_add_gen_ll((long long *)out, (long long)wrong);
}

/* c = a b, square, n a multiple of 16, in blocks of 16 by 16 threads. */
KERNEL gemm(const float *a, const float *b, float *c, u32 n)
{
	u32 row = __nvvm_read_ptx_sreg_ctaid_y() * 16 + __nvvm_read_ptx_sreg_tid_y();
	u32 col = __nvvm_read_ptx_sreg_ctaid_x() * 16 + __nvvm_read_ptx_sreg_tid_x();
	float sum = 0;

	for (u32 k = 0; k < n; k++)
		sum += a[(u64)row * n + k] * b[(u64)k * n + col];
	c[(u64)row * n + col] = sum;
}
