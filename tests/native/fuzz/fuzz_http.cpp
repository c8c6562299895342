// SPDX-License-Identifier: Apache-2.0
// Any bytes from a client or a server: they mean the same in one piece and in many, and a query
// that is understood is written so that it is understood alike.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.hpp"
#include "http/query.hpp"

namespace {

void require(bool holds) {
    if (!holds)
        std::abort();
}

/// The requests that a server finds in a stream before a wrong one. How many bytes of that it takes
/// to see that it is wrong depends on the pieces.
std::vector<std::string> read_requests(std::string_view stream, std::size_t piece) {
    dcgym::RequestReader reader;
    std::vector<std::string> seen;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
        dcgym::Parsed parsed = reader.take(stream.substr(at, piece));
        for (; parsed == dcgym::Parsed::whole; parsed = reader.take({}))
            seen.push_back(reader.next().target);
        if (parsed == dcgym::Parsed::wrong)
            break;
    }
    return seen;
}

struct Response {
    dcgym::Parsed parsed = dcgym::Parsed::more;
    unsigned status = 0;
    std::uint64_t body_bytes = 0;

    bool operator==(const Response &) const = default;
};

Response read_response(std::string_view stream, std::size_t piece) {
    dcgym::ResponseReader reader;
    Response response;
    for (std::size_t at = 0; at < stream.size(); at += piece)
        if ((response.parsed = reader.take(stream.substr(at, piece))) != dcgym::Parsed::more)
            break;
    if (response.parsed == dcgym::Parsed::more)
        response.parsed = reader.end();
    // How far a wrong response was read depends on its pieces.
    if (response.parsed == dcgym::Parsed::wrong)
        return response;
    response.status = reader.status();
    response.body_bytes = reader.body_bytes();
    return response;
}

void check_query(std::string_view text) {
    static const std::vector<std::string> names{"cpu", "io", "gpu-0"};
    const auto work = dcgym::parse_work(text, names);
    if (!work)
        return;
    const std::string written = dcgym::work_query(work->stages, work->bytes, names);
    const auto again = dcgym::parse_work(written, names);
    require(again && again->bytes == work->bytes && again->stages.size() == work->stages.size());
    require(dcgym::work_query(again->stages, again->bytes, names) == written);
}

} // namespace

/// First byte: length of the pieces.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    if (size < 2)
        return 0;
    const std::size_t piece = std::max<std::size_t>(data[0], 1);
    const std::string_view stream{reinterpret_cast<const char *>(data + 1), size - 1};
    require(read_requests(stream, piece) == read_requests(stream, stream.size()));
    require(read_response(stream, piece) == read_response(stream, stream.size()));
    check_query(stream);
    return 0;
}
