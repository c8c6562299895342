// SPDX-License-Identifier: Apache-2.0
#include "http.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/clock.hpp"

namespace dcgym {
namespace {

constexpr std::int64_t kTickNs = 4'000'000;

} // namespace

ServerRows::ServerRows(int fd, std::size_t n_servers)
    : size_bytes_{n_servers * sizeof(dcgym_http_server)} {
    struct stat status {};
    check(fstat(fd, &status), "fstat of the servers' rows");
    // mmap(2) itself refuses a BPF map that is too small, which is no regular file.
    if (S_ISREG(status.st_mode) && static_cast<std::size_t>(status.st_size) < size_bytes_)
        throw std::invalid_argument("the memory of the servers' rows is too small");
    void *mapped = mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        check(-1, "mmap of the servers' rows");
    rows_ = static_cast<dcgym_http_server *>(mapped);
}

ServerRows::~ServerRows() {
    if (rows_)
        munmap(rows_, size_bytes_);
}

Http::Http(World &world)
    : Entry{world.timetable}, world_{world}, clients_{world, registry_, board_}, next_tick_ns_{
                                                                                     now_ns()} {
    due();
}

void Http::set_servers(int fd, const std::vector<HttpServerSpec> &specs) {
    servers_.clear();
    rows_ = specs.empty() ? nullptr : std::make_unique<ServerRows>(fd, specs.size());
    try {
        for (std::size_t i = 0; i < specs.size(); ++i) {
            std::memset(&rows_->row(i), 0, sizeof(dcgym_http_server));
            servers_.push_back(std::make_unique<HttpServer>(world_, registry_, board_, i, specs[i],
                                                            rows_->row(i)));
        }
    } catch (...) {
        servers_.clear();
        throw;
    }
}

void Http::set_messages(MessageBoard board) {
    board_ = std::move(board);
    for (const auto &server : servers_)
        server->open_messages();
}

HttpServer &Http::server(std::size_t number) {
    if (number >= servers_.size())
        throw std::invalid_argument("no server " + std::to_string(number));
    return *servers_[number];
}

void Http::due() {
    for (const auto &server : servers_)
        server->publish();
    clients_.publish();
    next_tick_ns_ = std::max(next_tick_ns_ + kTickNs, now_ns());
    world_.timetable.set(*this, next_tick_ns_);
}

} // namespace dcgym
