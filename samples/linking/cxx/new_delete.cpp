// One file of the program includes this, and operator new is Keel's in all of it.
#include <keel/keel-new-delete.h>
