// The one file of a program that includes this.
#include <mimalloc-new-delete.h>
