/* culprit: open_config by kept
 * The path of an error forgets one of two buffers. */
#include <stdlib.h>
#include <string.h>

struct config {
    char* name;
    char* contents;
};

static struct config* open_config(int index) {
    struct config* config = malloc(sizeof *config);
    config->name = malloc(100);
    config->contents = malloc(1000);
    memset(config->contents, index, 1000);
    if (index % 7 == 0) {
        free(config->name);
        free(config);
        return NULL;
    }
    return config;
}

int main(void) {
    for (int i = 0; i < 5000; i++) {
        struct config* config = open_config(i);
        if (config == NULL) continue;
        free(config->name);
        free(config->contents);
        free(config);
    }
    return 0;
}
