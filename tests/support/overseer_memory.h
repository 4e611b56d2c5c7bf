// The resident memory of a process and of all processes below it, averaged over the time.
#pragma once

#include <sys/types.h>

struct memory {
    pid_t of;          // the process; 0 if nothing is sampled
    double last, next; // the time of the last sample and of the next one, s
    double bytes;      // at the last sample
    double sum;        // bytes times seconds, up to the last sample
    double begin;      // the time of the first sample
    long samples;
};

// Takes a sample at the time `now` and sets the time of the next one: 1 ms later at first, 10 ms
// later from the tenth sample on. It reads two small files for each process and thread.
void memory_sample(struct memory* memory, double now);
// Bytes; 0 if there are fewer than 5 samples.
double memory_average(const struct memory* memory);
