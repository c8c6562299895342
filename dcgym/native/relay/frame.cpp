// SPDX-License-Identifier: Apache-2.0
#include "frame.hpp"

#include <arpa/inet.h>

#include <cstring>

#include "link_delay.h"

namespace dcgym::relay {
namespace {

constexpr std::size_t kAddressBytes = 12, kTagBytes = 4, kTypeBytes = 2;

// struct virtio_net_hdr (linux/virtio_net.h), which C++ cannot include.
struct Header {
    std::uint8_t flags, gso_type;
    std::uint16_t header_bytes, gso_bytes, checksum_start, checksum_offset;
};
constexpr std::uint8_t kNeedsChecksum = 1;
constexpr std::size_t kHeaderBytes = sizeof(Header);
static_assert(kHeaderBytes == 10);

std::int64_t arrival_ns(std::uint16_t stamp, std::int64_t now_ns) {
    const auto now = static_cast<std::uint64_t>(now_ns) >> DCGYM_DELAY_STAMP_SHIFT;
    // The latest time with these bits that is not to come.
    const auto age = static_cast<std::uint16_t>(static_cast<std::uint16_t>(now) - stamp);
    return static_cast<std::int64_t>((now - age + 1) << DCGYM_DELAY_STAMP_SHIFT);
}

} // namespace

std::optional<Frame> take_stamp(char *data, std::size_t bytes, std::int64_t now_ns) {
    if (bytes < kHeaderBytes + kAddressBytes + kTagBytes + kTypeBytes)
        return {};
    std::uint16_t tag[2];
    std::memcpy(tag, data + kHeaderBytes + kAddressBytes, sizeof(tag));
    if (ntohs(tag[0]) != DCGYM_DELAY_STAMP_PROTOCOL)
        return {};
    Header header;
    std::memcpy(&header, data, sizeof(header));
    if (header.flags & kNeedsChecksum) {
        if (header.checksum_start < kAddressBytes + kTagBytes)
            return {};
        header.checksum_start -= kTagBytes;
    }
    std::memmove(data + kTagBytes + kHeaderBytes, data + kHeaderBytes, kAddressBytes);
    std::memcpy(data + kTagBytes, &header, sizeof(header));
    return Frame{data + kTagBytes, bytes - kTagBytes, arrival_ns(ntohs(tag[1]), now_ns)};
}

} // namespace dcgym::relay
