// The only file of the program that includes keel/keel-new-delete.h.
#include <keel/keel-new-delete.h>
