// See overseer_memory.h. What each sample found counts until the next one.
#include "overseer_memory.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FIRST_SAMPLES = 10, LEAST_SAMPLES = 5, PATH_BYTES = 96, DEEPEST = 64 };

static double resident_bytes(long process) {
    char path[PATH_BYTES];
    unsigned long all, resident = 0;
    snprintf(path, sizeof path, "/proc/%ld/statm", process);
    FILE* file = fopen(path, "r");
    if (file == NULL) return 0; // it has ended
    if (fscanf(file, "%lu %lu", &all, &resident) != 2) resident = 0;
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

// Of a process and of those that it started. The kernel lists the children of each thread.
static double resident_below(long process, int depth) {
    double bytes = resident_bytes(process);
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%ld/task", process);
    DIR* threads = depth < DEEPEST ? opendir(path) : NULL;
    if (threads == NULL) return bytes;
    for (struct dirent* entry; (entry = readdir(threads));) {
        long child;
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        snprintf(path, sizeof path, "/proc/%ld/task/%.20s/children", process, entry->d_name);
        FILE* file = fopen(path, "r");
        if (file == NULL) continue;
        while (fscanf(file, "%ld", &child) == 1) bytes += resident_below(child, depth + 1);
        fclose(file);
    }
    closedir(threads);
    return bytes;
}

void memory_sample(struct memory* memory, double now) {
    if (memory->samples == 0) memory->begin = now;
    memory->sum += memory->bytes * (now - memory->last);
    memory->bytes = resident_below(memory->of, 0);
    memory->last = now;
    memory->samples++;
    memory->next = now + (memory->samples < FIRST_SAMPLES ? 0.001 : 0.01);
}

double memory_average(const struct memory* memory) {
    double seconds = memory->last - memory->begin;
    return memory->samples < LEAST_SAMPLES || seconds <= 0 ? 0 : memory->sum / seconds;
}
