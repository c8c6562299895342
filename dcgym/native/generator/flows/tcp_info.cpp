// SPDX-License-Identifier: Apache-2.0
// Apart from the rest because <linux/tcp.h>, which alone has the 64-bit byte counters, cannot be
// included together with the <netinet/tcp.h> that Asio brings along.
#include "tcp_info.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <limits>

namespace dcgym {

TcpSample sample_tcp(int fd) {
    tcp_info info{};
    socklen_t length = sizeof(info);
    if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
        return {};
    TcpSample sample;
    // The kernel counts the SYN of an active open as an acknowledged byte.
    if (info.tcpi_bytes_acked > 0)
        sample.acked_bytes = info.tcpi_bytes_acked - 1;
    sample.sacked_bytes = std::uint64_t{info.tcpi_sacked} * info.tcpi_snd_mss;
    sample.retransmits = info.tcpi_total_retrans;
    sample.reorderings = info.tcpi_reord_seen;
    sample.spurious_retransmits = info.tcpi_dsack_dups;
    sample.out_of_order = info.tcpi_rcv_ooopack;
    if (info.tcpi_min_rtt != std::numeric_limits<std::uint32_t>::max()) {
        sample.srtt_ns = std::uint64_t{info.tcpi_rtt} * 1000;
        sample.min_rtt_ns = std::uint64_t{info.tcpi_min_rtt} * 1000;
    }
    return sample;
}

} // namespace dcgym
