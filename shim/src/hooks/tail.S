/*
 * dlsym and dlvsym. glibc finds the caller (for RTLD_NEXT and RTLD_DEFAULT) by
 * the return address, so a plain lookup must reach the real function by a
 * jump that leaves the caller's frame as it was.
 *
 * gw_pick(handle, name, return address, version or NULL) gives the pointer to
 * answer with, or NULL to jump on. gw_own_<name> is ours whatever is preloaded.
 */

#if defined(__x86_64__)

.macro override name, target, own, versioned
	.globl \name
	.type \name, @function
	.globl \own
	.hidden \own
	.balign 16
\name:
\own:
	.cfi_startproc
	endbr64
	subq $40, %rsp
	.cfi_adjust_cfa_offset 40
	movq %rdi, 0(%rsp)
	movq %rsi, 8(%rsp)
	movq %rdx, 16(%rsp)
	xorl %ecx, %ecx
	.if \versioned
	movq %rdx, %rcx
	.endif
	movq 40(%rsp), %rdx
	call gw_pick
	movq 0(%rsp), %rdi
	movq 8(%rsp), %rsi
	movq 16(%rsp), %rdx
	addq $40, %rsp
	.cfi_adjust_cfa_offset -40
	testq %rax, %rax
	jnz 1f
	jmpq *\target(%rip)
1:	ret
	.cfi_endproc
	.size \name, . - \name
.endm

#elif defined(__aarch64__)

.macro override name, target, own, versioned
	.globl \name
	.type \name, %function
	.globl \own
	.hidden \own
	.balign 16
\name:
\own:
	.cfi_startproc
	hint #34 /* bti c */
	stp x29, x30, [sp, #-48]!
	.cfi_adjust_cfa_offset 48
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	mov x29, sp
	stp x0, x1, [sp, #16]
	str x2, [sp, #32]
	mov x3, xzr
	.if \versioned
	mov x3, x2
	.endif
	mov x2, x30
	bl gw_pick
	mov x17, x0
	ldp x0, x1, [sp, #16]
	ldr x2, [sp, #32]
	ldp x29, x30, [sp], #48
	.cfi_adjust_cfa_offset -48
	.cfi_restore x29
	.cfi_restore x30
	cbnz x17, 1f
	adrp x16, \target
	ldr x16, [x16, :lo12:\target]
	br x16
1:	mov x0, x17
	ret
	.cfi_endproc
	.size \name, . - \name
.endm

#else
#error "no tail jump for this processor"
#endif

	.text
	override dlsym, gw_dlsym, gw_own_dlsym, 0
	override dlvsym, gw_dlvsym, gw_own_dlvsym, 1

	.section .note.GNU-stack, "", %progbits
