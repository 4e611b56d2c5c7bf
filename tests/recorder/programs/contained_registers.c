// A program whose malloc and free change no register but that of the result, and whose caller
// relies on it, as a compiler does that sees both (GCC's -fipa-ra). Exits with 0 if all registers
// have the same values after the calls, whether the stack is aligned or not.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GENERAL = 9, MASKS = 8, VECTORS = 32, VECTOR_BYTES = 64 };

struct registers {
    uint64_t general[GENERAL]; // rdi, rsi, rdx, rcx, r8, r9, r10, r11, rax
    uint64_t masks[MASKS];
    uint8_t vectors[VECTORS][VECTOR_BYTES];
};

static char heap[1 << 20];
char* test_top = heap;
int test_level; // 0: SSE, 1: AVX, 2: AVX-512

// Loads the registers from the first argument, subtracts the third from the stack pointer, calls
// the function, and stores the registers to the second argument.
void call_malloc(const struct registers* before, struct registers* after, uint64_t misaligned);
void call_free(const struct registers* before, struct registers* after, uint64_t misaligned);

__asm__(".text\n"
        ".macro function name\n"
        "  .globl \\name\n"
        "  .type \\name, @function\n"
        "  \\name:\n"
        ".endm\n"
        ".macro general at, is_store\n"
        "  .set offset, 0\n"
        "  .irp register, rdi, rsi, rdx, rcx, r8, r9, r10, r11, rax\n"
        "    .if \\is_store\n"
        "      movq %\\register, offset(\\at)\n"
        "    .else\n"
        "      movq offset(\\at), %\\register\n"
        "    .endif\n"
        "    .set offset, offset + 8\n"
        "  .endr\n"
        ".endm\n");

// clang-format off
#define EACH_8(text) ".irp n, 0,1,2,3,4,5,6,7\n" text ".endr\n"
#define EACH_16(text) ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n" text ".endr\n"
#define EACH_32(text) EACH_16(text) \
    ".irp n, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n" text ".endr\n"
__asm__(".macro caller name, callee\n"
        "  function \\name\n"
        "  pushq %rbp\n movq %rsp, %rbp\n pushq %rbx\n pushq %r12\n"
        "  movq %rdi, %rbx\n movq %rsi, %r12\n subq %rdx, %rsp\n"
        "  cmpl $1, test_level(%rip)\n jb 1f\n je 2f\n"
        EACH_8("kmovq 72+8*\\n(%rbx), %k\\n\n")
        EACH_32("vmovdqu64 136+64*\\n(%rbx), %zmm\\n\n")
        "  jmp 3f\n 2:\n"
        EACH_16("vmovdqu 136+64*\\n(%rbx), %ymm\\n\n")
        "  jmp 3f\n 1:\n"
        EACH_16("movdqu 136+64*\\n(%rbx), %xmm\\n\n")
        "  3: general %rbx, 0\n"
        "  call \\callee\n"
        "  general %r12, 1\n"
        "  cmpl $1, test_level(%rip)\n jb 1f\n je 2f\n"
        EACH_8("kmovq %k\\n, 72+8*\\n(%r12)\n")
        EACH_32("vmovdqu64 %zmm\\n, 136+64*\\n(%r12)\n")
        "  vzeroupper\n jmp 3f\n 2:\n"
        EACH_16("vmovdqu %ymm\\n, 136+64*\\n(%r12)\n")
        "  vzeroupper\n jmp 3f\n 1:\n"
        EACH_16("movdqu %xmm\\n, 136+64*\\n(%r12)\n")
        "  3: leaq -16(%rbp), %rsp\n popq %r12\n popq %rbx\n popq %rbp\n ret\n"
        "  .size \\name, . - \\name\n"
        ".endm\n"
        "caller call_malloc, malloc\n"
        "caller call_free, free\n"
        "function malloc\n"
        "  movq test_top(%rip), %rax\n addq $2048, test_top(%rip)\n ret\n"
        "  .size malloc, . - malloc\n"
        "function free\n"
        "  addq $0, test_top(%rip)\n ret\n"
        "  .size free, . - free\n");
// clang-format on

static int differ(const struct registers* before, const struct registers* after, int has_result) {
    const size_t size = test_level == 2 ? 64 : test_level == 1 ? 32 : 16;
    const int vectors = test_level == 2 ? 32 : 16;
    int count = 0;
    for (int i = 0; i < GENERAL - has_result; i++) count += before->general[i] != after->general[i];
    for (int i = 0; i < vectors; i++)
        count += memcmp(before->vectors[i], after->vectors[i], size) != 0;
    if (test_level == 2) count += memcmp(before->masks, after->masks, sizeof after->masks) != 0;
    return count;
}

int main(void) {
    enum { ROUNDS = 100 };
    static struct registers before, after;
    int different = 0;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx")) test_level = 1;
    if (__builtin_cpu_supports("avx512bw")) test_level = 2;
    for (int i = 0; i < ROUNDS; i++) {
        for (size_t at = 0; at < sizeof before; at++)
            ((uint8_t*)&before)[at] = (uint8_t)(at * 37 + (size_t)i);
        before.general[0] = 1500;
        call_malloc(&before, &after, i % 2 * 8);
        different += differ(&before, &after, 1);
        before.general[0] = after.general[GENERAL - 1];
        call_free(&before, &after, i % 2 * 8);
        different += differ(&before, &after, 0);
    }
    if (different != 0) fprintf(stderr, "%d registers changed\n", different);
    return different != 0;
}
