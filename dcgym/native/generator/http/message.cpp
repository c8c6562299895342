// SPDX-License-Identifier: Apache-2.0
#include "message.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cctype>
#include <limits>
#include <optional>

namespace dcgym {
namespace {

namespace http = boost::beast::http;

constexpr std::uint32_t kHeaderBytes = 8192;
constexpr std::uint64_t kBodyBytes = 65'536;
constexpr std::size_t kScratchBytes = 65'536;

unsigned status_of(const boost::system::error_code &error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
        return 431;
    if (error == http::error::body_limit)
        return 413;
    return error == http::error::bad_version ? 505 : 400;
}

bool begins_with_scheme(std::string_view target) {
    constexpr std::string_view kScheme = "http://";
    const auto equal = [](char expected, char given) {
        return std::tolower(static_cast<unsigned char>(given)) == expected;
    };
    return target.size() >= kScheme.size() &&
           std::equal(kScheme.begin(), kScheme.end(), target.begin(), equal);
}

/// Path and query of a target. Clients of proxies send an absolute one (RFC 9112, section 3.2.2),
/// whose host is the one asked for; nothing where that is none.
std::optional<std::string> path_and_query(std::string_view target) {
    if (!begins_with_scheme(target))
        return std::string{target};
    target.remove_prefix(target.find("//") + 2);
    const std::size_t end = std::min(target.find_first_of("/?#"), target.size());
    const std::string_view authority = target.substr(0, end);
    // RFC 9110, section 4.2: an empty host, and names of users, are errors.
    if (authority.empty() || authority.front() == ':' || authority.find('@') != authority.npos)
        return std::nullopt;
    target.remove_prefix(end);
    return target.starts_with('/') ? std::string{target} : "/" + std::string{target};
}

template <typename Message> std::optional<std::string> target_of(const Message &message) {
    const auto target = message.target();
    return path_and_query({target.data(), target.size()});
}

/// RFC 9112, section 3.2: a request of HTTP/1.1 names exactly one host.
template <typename Message> unsigned status_of(const Message &message) {
    if (message.version() != 10 && message.version() != 11)
        return 505;
    if (message.version() == 11 && message.count(http::field::host) != 1)
        return 400;
    return target_of(message) ? 200 : 400;
}

} // namespace

struct RequestReader::Parser : http::request_parser<http::string_body> {
    Parser() {
        header_limit(kHeaderBytes);
        body_limit(kBodyBytes);
        eager(true);
    }
};

RequestReader::RequestReader() : parser_{std::make_unique<Parser>()} {}

RequestReader::~RequestReader() = default;

Parsed RequestReader::refuse(unsigned status) {
    status_ = status;
    return Parsed::wrong;
}

Parsed RequestReader::take(std::string_view bytes) {
    pending_.append(bytes);
    while (!pending_.empty() && !parser_->is_done()) {
        boost::system::error_code error;
        const std::size_t used = parser_->put(boost::asio::buffer(pending_), error);
        pending_.erase(0, used);
        if (error == http::error::need_more)
            break;
        if (error)
            return refuse(status_of(error));
    }
    if (!parser_->is_done())
        return Parsed::more;
    const unsigned status = status_of(parser_->get());
    return status == 200 ? Parsed::whole : refuse(status);
}

HttpRequest RequestReader::next() {
    const auto &message = parser_->get();
    HttpRequest request;
    request.target = target_of(message).value_or("");
    request.get = message.method() == http::verb::get;
    request.head = message.method() == http::verb::head;
    request.keep_alive = message.keep_alive();
    parser_ = std::make_unique<Parser>();
    return request;
}

bool RequestReader::has_begun() const {
    return !pending_.empty() || parser_->got_some();
}

struct ResponseReader::Parser : http::response_parser<http::buffer_body> {
    Parser() {
        header_limit(kHeaderBytes);
        body_limit(std::numeric_limits<std::uint64_t>::max());
        eager(true);
    }
};

ResponseReader::ResponseReader() : parser_{std::make_unique<Parser>()} {}

ResponseReader::~ResponseReader() = default;

Parsed ResponseReader::take(std::string_view bytes) {
    static std::array<char, kScratchBytes> scratch;
    if (!pending_.empty())
        bytes = pending_.append(bytes);
    while (!bytes.empty() && !parser_->is_done()) {
        parser_->get().body() = {scratch.data(), scratch.size(), true};
        boost::system::error_code error;
        const std::size_t used = parser_->put(boost::asio::buffer(bytes), error);
        body_bytes_ += scratch.size() - parser_->get().body().size;
        bytes.remove_prefix(used);
        if (error == http::error::need_more)
            break;
        if (error && error != http::error::need_buffer)
            return Parsed::wrong;
    }
    pending_ = std::string{bytes};
    return parser_->is_done() ? Parsed::whole : Parsed::more;
}

Parsed ResponseReader::end() {
    boost::system::error_code error;
    if (!parser_->is_done() && parser_->got_some())
        parser_->put_eof(error);
    return !error && parser_->is_done() ? Parsed::whole : Parsed::wrong;
}

unsigned ResponseReader::status() const {
    return parser_->is_header_done() ? parser_->get().result_int() : 0;
}

std::string response_header(unsigned status, std::uint64_t body_bytes, bool keep_alive,
                            std::size_t server) {
    std::string out = "HTTP/1.1 " + std::to_string(status) + " ";
    out += std::string{http::obsolete_reason(http::int_to_status(status))};
    out += "\r\nServer: dcgym\r\nServer-Id: " + std::to_string(server);
    out += "\r\nContent-Type: application/octet-stream";
    if (status == 405)
        out += "\r\nAllow: GET, HEAD";
    out += "\r\nContent-Length: " + std::to_string(body_bytes);
    out += keep_alive ? "\r\nConnection: keep-alive\r\n\r\n" : "\r\nConnection: close\r\n\r\n";
    return out;
}

} // namespace dcgym
