// A message broker: producers publish messages, a broker appends a reference to the queue of each
// subscriber of the topic, and the last subscriber that reads a message frees it.
#include "synthetic.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SUBSCRIBERS = 3, QUEUE = 1024, MESSAGES = 250000, BATCH = 16 };

struct message {
    atomic_uint references;
    size_t bytes;
    char* payload; // a block of its own
};
// The queue's node is a block too, as in a broker that has a linked list for each subscriber.
struct node {
    struct node* next;
    struct message* message;
};
struct inbox {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct node *first, **last;
    size_t count;
    bool closed;
    uint64_t sum;
};

static struct inbox incoming, inboxes[SUBSCRIBERS];

static void open_inbox(struct inbox* inbox) {
    memset(inbox, 0, sizeof *inbox);
    pthread_mutex_init(&inbox->lock, NULL);
    pthread_cond_init(&inbox->changed, NULL);
    inbox->last = &inbox->first;
}
static void put(struct inbox* inbox, struct message* message) {
    struct node* node = take(sizeof *node);
    *node = (struct node){NULL, message};
    pthread_mutex_lock(&inbox->lock);
    while (inbox->count >= QUEUE) pthread_cond_wait(&inbox->changed, &inbox->lock);
    *inbox->last = node;
    inbox->last = &node->next;
    if (++inbox->count % BATCH == 0) pthread_cond_broadcast(&inbox->changed);
    pthread_mutex_unlock(&inbox->lock);
}
static void close_inbox(struct inbox* inbox) {
    pthread_mutex_lock(&inbox->lock);
    inbox->closed = true;
    pthread_cond_broadcast(&inbox->changed);
    pthread_mutex_unlock(&inbox->lock);
}
// All nodes that are queued, or NULL at the end.
static struct node* get_all(struct inbox* inbox) {
    pthread_mutex_lock(&inbox->lock);
    while (inbox->count < BATCH && !inbox->closed) pthread_cond_wait(&inbox->changed, &inbox->lock);
    struct node* nodes = inbox->first;
    inbox->first = NULL;
    inbox->last = &inbox->first;
    inbox->count = 0;
    pthread_cond_broadcast(&inbox->changed);
    pthread_mutex_unlock(&inbox->lock);
    return nodes;
}

static void subscribe(void* argument) {
    struct inbox* inbox = argument;
    for (struct node *nodes, *next; (nodes = get_all(inbox)) != NULL;)
        for (; nodes != NULL; nodes = next) {
            struct message* message = nodes->message;
            next = nodes->next;
            free(nodes);
            inbox->sum += message->bytes + (unsigned char)message->payload[0];
            if (atomic_fetch_sub(&message->references, 1) > 1) continue;
            free(message->payload);
            free(message);
        }
}

static void route(void) {
    for (struct node *nodes, *next; (nodes = get_all(&incoming)) != NULL;)
        for (; nodes != NULL; nodes = next) {
            struct message* message = nodes->message;
            next = nodes->next;
            free(nodes);
            // A message has one to three subscribers.
            unsigned readers = 1 + (unsigned)(message->bytes % SUBSCRIBERS);
            atomic_store(&message->references, readers);
            for (unsigned i = 0; i < readers; i++) put(&inboxes[i], message);
        }
    for (unsigned i = 0; i < SUBSCRIBERS; i++) close_inbox(&inboxes[i]);
}

static void publish(size_t count) {
    uint64_t seed = 91;
    for (size_t i = 0; i < count; i++) {
        struct message* message = take(sizeof *message);
        message->bytes = between_log(&seed, 32, 8 * KIB);
        message->payload = take(message->bytes);
        put(&incoming, message);
    }
    close_inbox(&incoming);
}

struct part {
    enum { PUBLISHER, BROKER, SUBSCRIBER } role;
    unsigned index;
    size_t count;
};
static void play(void* argument) {
    struct part* part = argument;
    if (part->role == PUBLISHER)
        publish(part->count);
    else if (part->role == BROKER)
        route();
    else
        subscribe(&inboxes[part->index]);
}

static uint64_t run(const struct extent* extent) {
    struct part parts[SUBSCRIBERS + 2] = {{PUBLISHER, 0, scaled(extent, MESSAGES)}, {BROKER, 0, 0}};
    uint64_t sum = 0;
    open_inbox(&incoming);
    for (unsigned i = 0; i < SUBSCRIBERS; i++) {
        open_inbox(&inboxes[i]);
        parts[i + 2] = (struct part){SUBSCRIBER, i, 0};
    }
    in_threads(SUBSCRIBERS + 2, play, parts, sizeof *parts);
    for (unsigned i = 0; i < SUBSCRIBERS; i++) sum += inboxes[i].sum;
    return sum;
}

const struct workload broker = {
    "broker",
    "a publisher, a broker and three subscribers: messages of 32 B to 8 KiB in linked queues",
    "blocks that are always freed by another thread than the one that allocated them",
    "our own: the life of a message in a broker",
    "the speed of local calls; locks and sleeping threads are a large part of the time",
    run,
};
