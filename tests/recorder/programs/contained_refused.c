// A program whose malloc or free cannot be changed: with -DSHORT free has one byte and another
// function follows at once, with -DLOOP malloc jumps to its second instruction.
#include <stddef.h>
#include <stdlib.h>

#define FUNCTION(name, code)                                                                       \
    __asm__(".text\n.globl " name "\n.type " name ", @function\n" name ":\n" code ".size " name    \
            ", . - " name "\n")

#ifdef LOOP
FUNCTION("malloc",
         "xor %eax, %eax\n1: inc %eax\ncmp $100, %eax\njne 1b\nlea heap(%rip), %rax\nret\n");
#else
FUNCTION("malloc", "lea heap(%rip), %rax\nret\nnop\nnop\nnop\nnop\nnop\n");
#endif
#ifdef SHORT
FUNCTION("free", "ret\n");
#else
FUNCTION("free", "xor %eax, %eax\nnop\nnop\nret\n");
#endif
FUNCTION("other", "mov $1, %eax\nret\n");

char heap[1 << 16];

int main(void) {
    free(malloc(1001));
    return 0;
}
