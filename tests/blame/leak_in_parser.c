/* culprit: keep_token by kept
 * A parser copies every token and frees all of them but those of comments. */
#include <stdlib.h>
#include <string.h>

static char* keep_token(const char* text) {
    return strdup(text);
}

static void parse(const char* line, int is_comment) {
    char* copy = malloc(300);
    strcpy(copy, line);
    char* token = keep_token(copy);
    if (!is_comment) free(token);
    free(copy);
}

int main(void) {
    void* table = malloc(500);
    for (int i = 0; i < 20000; i++) parse("a line of a configuration file", i % 100 == 0);
    free(table);
    return 0;
}
