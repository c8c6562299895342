// SPDX-License-Identifier: Apache-2.0
// What a TAP gives: a virtio_net header, then the frame with the time of its arrival in a tag.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace dcgym::relay {

struct Frame {
    const char *data;  // as the TAP takes it back: the tag is gone
    std::size_t bytes; // the virtio_net header included
    std::int64_t arrival_ns;
};

/// Room for the header, the tag, and the largest packet.
constexpr std::size_t kMostFrameBytes = 10 + 18 + 65'535;

/// Takes the tag out of what was read at `now_ns` (CLOCK_MONOTONIC), in place.
///
/// Nothing without the tag: it did not come over the link. The arrival is rounded up to the unit of
/// the stamp, so that no packet leaves early.
std::optional<Frame> take_stamp(char *data, std::size_t bytes, std::int64_t now_ns);

} // namespace dcgym::relay
