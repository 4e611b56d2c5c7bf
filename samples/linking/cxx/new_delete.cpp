// One file of the program includes this header; operator new is then Keel's in the whole program.
#include <keel/keel-new-delete.h>
