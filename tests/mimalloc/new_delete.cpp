// The only file of the program that includes this header.
#include <mimalloc-new-delete.h>
