/* SPDX-License-Identifier: GPL-2.0-only */
/* TCP options: the timestamps (RFC 7323), and what else is asked for. */
#ifndef DCGYM_BPF_L4LB_OPTIONS_H
#define DCGYM_BPF_L4LB_OPTIONS_H

/* The bytes of a packet, whatever hook it came by; `bytes` counts those outside the linear part. */
struct frame {
    void *data;
    void *end;
    __u32 bytes;
    bool xdp;
    bool tagged; /* with a VLAN that the kernel keeps beside the bytes: at tc only */
    void *context;
};

#define TCP_OPTION_END 0
#define TCP_OPTION_NOP 1
#define TCP_OPTION_MSS 2
#define TCP_OPTION_TIMESTAMP 8
#define MSS_BYTES 4
#define TIMESTAMP_BYTES 10
#define TIMESTAMP_VALUE 2 /* offsets in the option */
#define TIMESTAMP_ECHO 6
#define MOST_TCP_BYTES 60

struct options {
    __u8 bytes[MOST_TCP_BYTES - sizeof(struct tcphdr)];
};

struct timestamp {
    __u32 at; /* of the option, from the TCP header on; 0: there is none */
    __u32 value;
    __u32 echo;
};

/*
 * Offset of an option of this kind and length from the TCP header on, 0 if there is none or the
 * options before it make no sense. Not inlined, so that the verifier walks it once.
 */
__noinline __u32 find_option(const struct options *options, __u32 n, __u8 kind, __u8 bytes) {
    __u32 at = 0;

    if (!options)
        return 0;
    for (__u32 i = 0; i < sizeof(options->bytes); i++) {
        __u8 found, length;

        if (at > sizeof(options->bytes) - 2 || at + 2 > n)
            return 0;
        found = options->bytes[at];
        length = options->bytes[at + 1];
        if (found == kind)
            return length == bytes && at + bytes <= n ? at + sizeof(struct tcphdr) : 0;
        if (found == TCP_OPTION_END || (found != TCP_OPTION_NOP && length < 2))
            return 0;
        at += found == TCP_OPTION_NOP ? 1 : length;
    }
    return 0;
}

/* Offset of an option of a packet's TCP header from that on, 0 if there is none. */
static __always_inline __u32 option_at(const struct frame *frame, const void *tcp, __u32 tcp_bytes,
                                       __u8 kind, __u8 bytes) {
    const __u32 at = tcp + sizeof(struct tcphdr) - frame->data;
    __u32 n = tcp_bytes - sizeof(struct tcphdr);
    struct options options = {};
    long err;

    if (n == 0 || n > sizeof(options.bytes))
        return 0;
    err = frame->xdp ? bpf_xdp_load_bytes(frame->context, at, options.bytes, n)
                     : bpf_skb_load_bytes(frame->context, at, options.bytes, n);
    return err ? 0 : find_option(&options, n, kind, bytes);
}

/* An offset in the TCP header, as the verifier is to see it. */
static __always_inline __u32 bounded(__u32 at) {
    barrier_var(at);
    return at & 63;
}

/* Values stay in network order. */
static __always_inline struct timestamp timestamp_at(const struct frame *frame, const void *tcp,
                                                     __u32 at) {
    const void *option = tcp + bounded(at);

    if (!at || option + TIMESTAMP_BYTES > frame->end)
        return (struct timestamp){};
    return (struct timestamp){at, *(__u32 *)(option + TIMESTAMP_VALUE),
                              *(__u32 *)(option + TIMESTAMP_ECHO)};
}

/* Nearly every packet but a SYN begins its options with two NOPs and the timestamps. */
static __always_inline struct timestamp read_timestamp(const struct frame *frame, const void *tcp,
                                                       __u32 tcp_bytes) {
    const __u32 *options = tcp + sizeof(struct tcphdr);

    if ((const void *)(options + 3) > frame->end || tcp_bytes < sizeof(struct tcphdr) + 12)
        return (struct timestamp){};
    if (options[0] == bpf_htonl(0x01010000 | TCP_OPTION_TIMESTAMP << 8 | TIMESTAMP_BYTES))
        return (struct timestamp){sizeof(struct tcphdr) + 2, options[1], options[2]};
    return timestamp_at(frame, tcp,
                        option_at(frame, tcp, tcp_bytes, TCP_OPTION_TIMESTAMP, TIMESTAMP_BYTES));
}

#endif
