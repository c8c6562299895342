/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of DCGYM_CONTROL, an algorithm of include/window_control.h that another package
 * has: dcgym/native/controls.py makes a shared object of it for the packet twin.
 */
#include "window_control.h"

#include DCGYM_CONTROL_HEADER

#define STATE DCGYM_CONTROL_STATE
#define OWN DCGYM_CONTROL_NAME

_Static_assert(sizeof(STATE) <= DCGYM_CC_STATE_BYTES, "the state is too large");

static void begin(void *state, __u32 cwnd_packets) {
    OWN(begin)((STATE *)state, cwnd_packets);
}

static void on_ack(void *state, const struct dcgym_cc_ack *ack) {
    OWN(on_ack)((STATE *)state, ack);
}

static void on_loss(void *state, __u64 now_us, __u32 srtt_us) {
    OWN(on_loss)((STATE *)state, now_us, srtt_us);
}

static void on_timeout(void *state) {
    OWN(on_timeout)((STATE *)state);
}

static void undo(void *state) {
    OWN(undo)((STATE *)state);
}

static struct dcgym_cc_decision decide(const void *state, __u32 mss_bytes, __u32 srtt_us) {
    return OWN(decide)((const STATE *)state, mss_bytes, srtt_us);
}

static __u32 in_slow_start(const void *state) {
    return ((const STATE *)state)->in_slow_start;
}

const struct dcgym_control_functions dcgym_control = {
    begin, on_ack, on_loss, on_timeout, undo, decide, in_slow_start,
};
