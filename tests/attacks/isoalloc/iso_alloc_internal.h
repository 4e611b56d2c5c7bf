// iso_alloc.h has all that the attacks need.
