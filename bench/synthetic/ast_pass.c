// The front and middle of a compiler: parses functions into syntax trees, folds constants by
// rewriting nodes, emits instructions into growing arrays, and frees one function at a time.
#include "synthetic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUNCTIONS = 400, STATEMENTS = 40, DEPTH = 6 };

struct node {
    enum { CONSTANT, VARIABLE, OPERATION } kind;
    long value;
    char* name;
    char operator;
    struct node *left, *right;
};
struct code {
    char** line;
    size_t count, room;
};
struct source {
    char* text;
    size_t count, room;
};

static void put(struct source* s, const char* text) {
    size_t bytes = strlen(text);
    if (s->count + bytes + 1 > s->room)
        s->text = resize(s->text, s->room = 2 * (s->room + bytes + 32));
    memcpy(s->text + s->count, text, bytes + 1);
    s->count += bytes;
}
static void write_expression(struct source* s, uint64_t* seed, unsigned depth) {
    char word[32];
    size_t kind = draw(seed) % 10;
    if (depth == 0 || kind < 2) {
        if (kind % 2 == 0)
            snprintf(word, sizeof word, "%u", (unsigned)(draw(seed) % 1000));
        else
            snprintf(word, sizeof word, "variable_%u", (unsigned)(draw(seed) % 30));
        put(s, word);
        return;
    }
    put(s, "(");
    write_expression(s, seed, depth - 1);
    put(s, (const char*[]){"+", "-", "*", "&"}[draw(seed) % 4]);
    write_expression(s, seed, depth - 1);
    put(s, ")");
}

static struct node* make(struct node values) {
    struct node* node = take(sizeof *node);
    *node = values;
    return node;
}
static struct node* parse(const char** at) {
    if (**at == '(') {
        struct node values = {.kind = OPERATION};
        ++*at;
        values.left = parse(at);
        values.operator= *(*at)++;
        values.right = parse(at);
        ++*at;
        return make(values);
    }
    if (**at >= '0' && **at <= '9') {
        char* end;
        long value = strtol(*at, &end, 10);
        *at = end;
        return make((struct node){.kind = CONSTANT, .value = value});
    }
    size_t length = strcspn(*at, "+-*&();");
    struct node* node = make((struct node){.kind = VARIABLE, .name = take(length + 1)});
    memcpy(node->name, *at, length);
    node->name[length] = 0;
    *at += length;
    return node;
}
static void release(struct node* node) {
    if (node == NULL) return;
    release(node->left);
    release(node->right);
    free(node->name);
    free(node);
}

static long computed(char operator, long left, long right) {
    unsigned long a = (unsigned long)left, b = (unsigned long)right;
    unsigned long result = operator== '+' ? a + b : operator== '-' ? a - b : a * b;
    return (long)((operator== '&' ? a & b : result) % 1000003);
}
// Replaces operations on constants by their result.
static struct node* folded(struct node* node) {
    if (node->kind != OPERATION) return node;
    node->left = folded(node->left);
    node->right = folded(node->right);
    if (node->left->kind != CONSTANT || node->right->kind != CONSTANT) return node;
    long value = computed(node->operator, node->left->value, node->right->value);
    release(node);
    return make((struct node){.kind = CONSTANT, .value = value});
}

// Emits a line for each operation and returns the number of the register with the result.
static size_t emit(const struct node* node, struct code* code) {
    char line[80];
    if (node->kind == OPERATION) {
        size_t left = emit(node->left, code), right = emit(node->right, code);
        snprintf(line, sizeof line, "r%zu = r%zu %c r%zu", code->count, left, node->operator,
                 right);
    } else if (node->kind == CONSTANT) {
        snprintf(line, sizeof line, "r%zu = %ld", code->count, node->value);
    } else {
        snprintf(line, sizeof line, "r%zu = load %s", code->count, node->name);
    }
    if (code->count == code->room) {
        code->room = code->room == 0 ? 8 : 2 * code->room;
        code->line = resize(code->line, code->room * sizeof *code->line);
    }
    size_t bytes = strlen(line) + 1;
    code->line[code->count] = take(bytes);
    memcpy(code->line[code->count], line, bytes);
    return code->count++;
}

static uint64_t compile(uint64_t* seed) {
    struct source source = {NULL, 0, 0};
    struct node* tree[STATEMENTS];
    struct code code = {NULL, 0, 0};
    for (unsigned i = 0; i < STATEMENTS; i++) {
        write_expression(&source, seed, DEPTH);
        put(&source, ";");
    }
    const char* at = source.text;
    for (unsigned i = 0; i < STATEMENTS; i++, at++) tree[i] = parse(&at);
    for (unsigned i = 0; i < STATEMENTS; i++) tree[i] = folded(tree[i]);
    for (unsigned i = 0; i < STATEMENTS; i++) emit(tree[i], &code);
    uint64_t lines = code.count;
    for (unsigned i = 0; i < STATEMENTS; i++) release(tree[i]);
    for (size_t i = 0; i < code.count; i++) free(code.line[i]);
    free(code.line);
    free(source.text);
    return lines;
}

static uint64_t run(const struct extent* extent) {
    uint64_t seed = 83, sum = 0;
    for (size_t i = 0, count = scaled(extent, FUNCTIONS); i < count; i++) sum += compile(&seed);
    return sum;
}

const struct workload ast_pass = {
    "ast-pass",
    "compiles functions: parses them into trees, folds constants, emits lines, frees all",
    "trees of small nodes, rewritten in part, with strings and growing arrays between them",
    "our own: the passes of a compiler",
    "an arena, which most compilers use instead; formatting takes a part of the time",
    run,
};
