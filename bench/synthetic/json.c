// Parses a JSON text into a tree of blocks, prints the tree into a growing buffer, and frees it.
#include "synthetic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOCUMENTS = 200, RECORDS = 1500 };

struct text {
    char* at;
    size_t count, room;
};
static void append(struct text* text, const char* from, size_t bytes) {
    if (text->count + bytes + 1 > text->room) {
        text->room = 2 * (text->count + bytes + 32);
        text->at = resize(text->at, text->room);
    }
    memcpy(text->at + text->count, from, bytes);
    text->count += bytes;
    text->at[text->count] = 0;
}
static void append_word(struct text* text, const char* word) {
    append(text, word, strlen(word));
}

struct value {
    enum { NUMBER, STRING, ARRAY, OBJECT } kind;
    double number;
    char* string;
    struct value** child; // grows by doubling; in an object each has a key
    char** key;
    size_t count;
};

static char* copied(const char* from, size_t bytes) {
    char* text = take(bytes + 1);
    memcpy(text, from, bytes);
    text[bytes] = 0;
    return text;
}
static char* parse_string(const char** at) {
    const char* begin = ++*at;
    while (**at != '"') ++*at;
    return copied(begin, (size_t)((*at)++ - begin));
}
static void add_child(struct value* v, char* key, struct value* child) {
    if ((v->count & (v->count - 1)) == 0) { // a power of two, or 0: full
        size_t room = v->count == 0 ? 1 : 2 * v->count;
        v->child = resize(v->child, room * sizeof *v->child);
        if (v->kind == OBJECT) v->key = resize(v->key, room * sizeof *v->key);
    }
    v->child[v->count] = child;
    if (v->kind == OBJECT) v->key[v->count] = key;
    v->count++;
}

static struct value* parse(const char** at) {
    struct value* v = take_zeroed(1, sizeof *v);
    if (**at == '"') {
        v->kind = STRING;
        v->string = parse_string(at);
    } else if (**at == '[' || **at == '{') {
        v->kind = *(*at)++ == '[' ? ARRAY : OBJECT;
        while (**at != ']' && **at != '}') {
            char* key = v->kind == OBJECT ? parse_string(at) : NULL;
            if (key != NULL) ++*at; // the colon
            add_child(v, key, parse(at));
            if (**at == ',') ++*at;
        }
        ++*at;
    } else {
        char* end;
        v->kind = NUMBER;
        v->number = strtod(*at, &end);
        if (end == *at) fail("json: a value is expected");
        *at = end;
    }
    return v;
}

static void print(const struct value* v, struct text* out) {
    char number[32];
    if (v->kind == NUMBER) {
        snprintf(number, sizeof number, "%.10g", v->number);
        append_word(out, number);
    } else if (v->kind == STRING) {
        append(out, "\"", 1);
        append_word(out, v->string);
        append(out, "\"", 1);
    } else {
        append(out, v->kind == ARRAY ? "[" : "{", 1);
        for (size_t i = 0; i < v->count; i++) {
            if (i > 0) append(out, ",", 1);
            if (v->kind == OBJECT) {
                append(out, "\"", 1);
                append_word(out, v->key[i]);
                append(out, "\":", 2);
            }
            print(v->child[i], out);
        }
        append(out, v->kind == ARRAY ? "]" : "}", 1);
    }
}

static void release(struct value* v) {
    for (size_t i = 0; i < v->count; i++) {
        release(v->child[i]);
        if (v->key != NULL) free(v->key[i]);
    }
    free(v->string);
    free(v->child);
    free(v->key);
    free(v);
}

static void write_records(struct text* text, uint64_t seed) {
    char record[256];
    append(text, "[", 1);
    for (unsigned i = 0; i < RECORDS; i++) {
        snprintf(record, sizeof record,
                 "%s{\"id\":%u,\"name\":\"record number %u\",\"place\":[%u,%u.5],"
                 "\"tags\":[\"%.*s\",\"b\"],\"more\":{\"x\":%u,\"note\":\"%.*s\"}}",
                 i > 0 ? "," : "", i, (unsigned)(draw(&seed) % 100000),
                 (unsigned)(draw(&seed) % 1000), (unsigned)(draw(&seed) % 1000),
                 (int)(draw(&seed) % 20), "abcdefghijklmnopqrst", (unsigned)(draw(&seed) % 100),
                 (int)(draw(&seed) % 60),
                 "a longer text that is a block of several dozen bytes in the tree of it");
        append_word(text, record);
    }
    append(text, "]", 1);
}

static uint64_t run(const struct extent* extent) {
    struct text source = {NULL, 0, 0};
    uint64_t sum = 0;
    write_records(&source, 41);
    for (size_t i = 0, count = scaled(extent, DOCUMENTS); i < count; i++) {
        const char* at = source.at;
        struct text out = {NULL, 0, 0};
        struct value* tree = parse(&at);
        print(tree, &out);
        release(tree);
        if (out.count != source.count || memcmp(out.at, source.at, out.count) != 0)
            fail("json: the printed text differs from the parsed text");
        sum += out.count;
        free(out.at);
    }
    free(source.at);
    return sum;
}

const struct workload json = {
    "json",
    "parses a text of 1,500 records into a tree of blocks, prints it and frees it",
    "small blocks, strings, arrays that grow by doubling, and a buffer that grows to 250 KB",
    "our own: what services do with every request",
    "malloc alone: conversion of numbers takes a part of the time",
    run,
};
