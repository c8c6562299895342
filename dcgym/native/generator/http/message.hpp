// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace dcgym {

enum class Parsed { more, whole, wrong };

/// What a server needs to know of a request.
struct HttpRequest {
    std::string target; /* path and query; of an absolute target too */
    bool get = false;
    bool head = false;
    bool keep_alive = false;
};

/// Takes requests out of a stream of bytes (RFC 9112), one after the other.
class RequestReader {
  public:
    RequestReader();
    ~RequestReader();

    /// Takes the next bytes; with none, looks at those that followed the last request.
    Parsed take(std::string_view bytes);
    /// The request, once it is whole; the next one may be read afterwards.
    HttpRequest next();
    /// Whether a part of a request has come.
    bool has_begun() const;
    /// What to answer to a wrong request.
    unsigned status() const { return status_; }

  private:
    struct Parser;

    Parsed refuse(unsigned status);

    std::unique_ptr<Parser> parser_;
    std::string pending_; /* came, but is not parsed */
    unsigned status_ = 400;
};

/// Takes one response out of a stream of bytes and throws its body away.
class ResponseReader {
  public:
    ResponseReader();
    ~ResponseReader();

    Parsed take(std::string_view bytes);
    /// No more bytes will come; a body without a length ends here.
    Parsed end();
    unsigned status() const;
    std::uint64_t body_bytes() const { return body_bytes_; }

  private:
    struct Parser;

    std::unique_ptr<Parser> parser_;
    std::string pending_;
    std::uint64_t body_bytes_ = 0;
};

/// A response's header; the body of so many bytes follows it.
std::string response_header(unsigned status, std::uint64_t body_bytes, bool keep_alive,
                            std::size_t server);

} // namespace dcgym
