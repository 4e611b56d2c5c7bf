// The one file of a program that includes keel/keel-new-delete.h.
#include <keel/keel-new-delete.h>
