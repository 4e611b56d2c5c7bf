// The C++ operators for programs that link keel.dll or libkeel.a: an object of both libraries'
// archives, so that it becomes part of the program. There it finds the program's new_handler, and
// throws the program's std::bad_alloc. A DLL would have those of its own C++ library.
#include "keel/keel-new-delete.h"
