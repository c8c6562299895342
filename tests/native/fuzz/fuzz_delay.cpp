// SPDX-License-Identifier: Apache-2.0
// Any frame of a TAP at the relay: it is refused, or only its tag goes and its time is believable.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "frame.hpp"
#include "link_delay.h"

namespace {

constexpr std::size_t header_bytes = 10, address_bytes = 12, tag_bytes = 4;
constexpr std::size_t checksum_start_at = 6;
constexpr std::int64_t unit_ns = std::int64_t{1} << DCGYM_DELAY_STAMP_SHIFT;

void require(bool holds) {
    if (!holds)
        std::abort();
}

std::uint16_t word_at(const char *data, std::size_t offset) {
    std::uint16_t word;
    std::memcpy(&word, data + offset, sizeof(word));
    return word;
}

// Headers and addresses have moved behind where the tag was, the rest stays.
void check_content(const char *given, std::size_t bytes, const dcgym::relay::Frame &frame) {
    require(frame.bytes + tag_bytes == bytes && frame.bytes >= header_bytes + address_bytes + 2);
    require(std::memcmp(frame.data, given, checksum_start_at) == 0);
    const bool needs_checksum = given[0] & 1;
    const std::uint16_t start = word_at(given, checksum_start_at);
    const std::uint16_t left = word_at(frame.data, checksum_start_at);
    require(needs_checksum ? left + tag_bytes == start : left == start);
    require(std::memcmp(frame.data + 8, given + 8, 2 + address_bytes) == 0);
    const std::size_t rest = header_bytes + address_bytes;
    require(std::memcmp(frame.data + rest, given + rest + tag_bytes, frame.bytes - rest) == 0);
}

// Rounded up by less than two units, and no older than the stamp can tell.
void check_time(const dcgym::relay::Frame &frame, std::int64_t now_ns) {
    require(frame.arrival_ns <= now_ns + unit_ns);
    require(frame.arrival_ns > now_ns - (unit_ns << 16));
}

} // namespace

/// First 8 bytes: the clock, less its top bits, as it counts from the machine's start.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    std::uint64_t clock;
    if (size < sizeof(clock))
        return 0;
    std::memcpy(&clock, data, sizeof(clock));
    // After the stamp's first turn: 134 ms.
    const auto now_ns = static_cast<std::int64_t>(clock >> 2 | std::uint64_t{1} << 27);
    const std::size_t bytes = size - sizeof(clock);
    // Of just this size, so that the sanitizer sees a byte beyond it.
    const std::unique_ptr<char[]> given(new char[bytes]), buffer(new char[bytes]);
    std::memcpy(given.get(), data + sizeof(clock), bytes);
    std::memcpy(buffer.get(), given.get(), bytes);
    const std::optional<dcgym::relay::Frame> frame =
        dcgym::relay::take_stamp(buffer.get(), bytes, now_ns);
    if (!frame)
        return 0;
    require(frame->data == buffer.get() + tag_bytes);
    check_content(given.get(), bytes, *frame);
    check_time(*frame, now_ns);
    return 0;
}
