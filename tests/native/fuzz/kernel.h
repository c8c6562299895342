/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The kernel around a BPF program in a fuzzer: packets, maps, time.
 *
 * A context holds 32-bit addresses, so packets lie below 4 GiB; the page behind the linear part of
 * a packet cannot be read, so that every byte too far ends the program.
 */
#ifndef DCGYM_FUZZ_KERNEL_H
#define DCGYM_FUZZ_KERNEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096
#define PACKET_BYTES 512
#define MAX_MAPS 24

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* An array map, or with `find` one whose keys are not indexes. */
struct fuzz_map {
    const void *map;
    void *values;
    size_t value_bytes;
    __u32 entries;
    void *(*find)(const void *key);
};

static struct fuzz_map maps[MAX_MAPS];
static size_t n_maps;
static __u64 now_ns;
static __u32 random_state;
static __u8 packet[PACKET_BYTES];
static __u8 *guard; /* the page that cannot be read */

static void add_map(struct fuzz_map map) {
    REQUIRE(n_maps < MAX_MAPS);
    maps[n_maps++] = map;
}

#define ADD_ARRAY(map, array)                                                                      \
    add_map((struct fuzz_map){&(map), (array), sizeof((array)[0]),                                 \
                              sizeof(array) / sizeof((array)[0]), NULL})
#define ADD_TABLE(map, function) add_map((struct fuzz_map){&(map), NULL, 0, 0, (function)})

void *bpf_map_lookup_elem(void *map, const void *key) {
    for (size_t i = 0; i < n_maps; i++) {
        __u32 index;

        if (maps[i].map != map)
            continue;
        if (maps[i].find)
            return maps[i].find(key);
        memcpy(&index, key, sizeof(index));
        return index < maps[i].entries ? (__u8 *)maps[i].values + index * maps[i].value_bytes
                                       : NULL;
    }
    REQUIRE(!"a map that the fuzzer does not know");
    return NULL;
}

long bpf_loop(__u32 times, void *callback, void *context, __u64 flags) {
    long (*one)(__u32, void *) = (long (*)(__u32, void *))callback;

    for (__u32 i = 0; i < times; i++)
        if (one(i, context))
            return i + 1;
    return times;
}

long bpf_probe_read_kernel(void *to, __u32 bytes, const void *from) {
    memcpy(to, from, bytes);
    return 0;
}

__u64 bpf_ktime_get_ns(void) {
    return now_ns;
}

/* xorshift32 (Marsaglia 2003): the same input gives the same run. */
__u32 bpf_get_prandom_u32(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    return random_state ^= random_state << 5;
}

/* Takes over what a program wrote into the linear part. */
static void gather(const struct __sk_buff *skb) {
    memcpy(packet, (void *)(long)skb->data, skb->data_end - skb->data);
}

/* Lets the first bytes of the packet be the linear part, right before the guard page. */
static void lay_out(struct __sk_buff *skb, __u32 bytes) {
    memcpy(guard - bytes, packet, bytes);
    skb->data = (__u32)(long)(guard - bytes);
    skb->data_end = (__u32)(long)guard;
}

long bpf_skb_pull_data(struct __sk_buff *skb, __u32 bytes) {
    if (bytes > skb->len)
        return -1;
    gather(skb);
    lay_out(skb, bytes);
    return 0;
}

/* Room between the Ethernet header and what follows. */
long bpf_skb_adjust_room(struct __sk_buff *skb, __s32 more, __u32 mode, __u64 flags) {
    const __u32 linear = skb->data_end - skb->data;

    REQUIRE(mode == BPF_ADJ_ROOM_MAC);
    if ((more < 0 && skb->len < ETH_HLEN - more) || skb->len + more > PACKET_BYTES)
        return -1;
    gather(skb);
    if (more < 0)
        memmove(packet + ETH_HLEN, packet + ETH_HLEN - more, skb->len - ETH_HLEN + more);
    else
        memmove(packet + ETH_HLEN + more, packet + ETH_HLEN, skb->len - ETH_HLEN);
    skb->len += more;
    lay_out(skb, more < 0 && linear + more < ETH_HLEN ? ETH_HLEN : linear + more);
    return 0;
}

__s64 bpf_csum_diff(void *from, __u32 from_bytes, void *to, __u32 to_bytes, __u32 seed) {
    __u64 sum = seed;
    __u16 word;

    for (__u32 at = 0; at + 2 <= to_bytes; at += 2, sum += word)
        memcpy(&word, (__u8 *)to + at, sizeof(word));
    for (__u32 at = 0; at + 2 <= from_bytes; at += 2, sum += (__u16)~word)
        memcpy(&word, (__u8 *)from + at, sizeof(word));
    while (sum >> 32)
        sum = (sum & 0xffffffff) + (sum >> 32);
    return (__s64)sum;
}

long bpf_skb_load_bytes(const void *context, __u32 at, void *to, __u32 bytes) {
    const struct __sk_buff *skb = context;

    if (at > skb->len || bytes > skb->len - at)
        return -1;
    gather(skb);
    memcpy(to, packet + at, bytes);
    return 0;
}

static void make_guard(void) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT;
    __u8 *pages = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);

    REQUIRE(pages != MAP_FAILED);
    guard = pages + PAGE_BYTES;
    REQUIRE(mprotect(guard, PAGE_BYTES, PROT_NONE) == 0);
}

/* Sets what a loader writes into the constants before it loads the program. */
static void set_constants(const volatile void *constants, const void *values, size_t bytes) {
    void *to = (void *)(long)constants;
    const long first = (long)constants / PAGE_BYTES * PAGE_BYTES;
    const long last = ((long)constants + (long)bytes - 1) / PAGE_BYTES * PAGE_BYTES;

    REQUIRE(mprotect((void *)first, last - first + PAGE_BYTES, PROT_READ | PROT_WRITE) == 0);
    /* The compiler must not conclude that constants are never written. */
    asm volatile("" : "+r"(to)::"memory");
    memcpy(to, values, bytes);
}

/* The sum of 16-bit words, folded, in network order; an odd byte is the high one of its word. */
static __u16 checksum(const __u8 *bytes, __u32 n) {
    __u32 sum = 0;

    for (__u32 i = 0; i < n; i++)
        sum += i % 2 ? bytes[i] : bytes[i] << 8;
    sum = (sum & 0xffff) + (sum >> 16);
    return (__u16)(sum + (sum >> 16));
}

/* A packet of the input and how much of it is linear. */
static struct __sk_buff receive(const __u8 *bytes, __u32 length, __u32 linear, __u32 ifindex) {
    struct __sk_buff skb = {.len = length, .wire_len = length, .ifindex = ifindex};

    memset(packet, 0, sizeof(packet));
    memcpy(packet, bytes, length);
    lay_out(&skb, linear < length ? linear : length);
    return skb;
}

/* The packet as the program left it. */
static const __u8 *result(const struct __sk_buff *skb) {
    gather(skb);
    return packet;
}

#endif
