// SPDX-License-Identifier: Apache-2.0
#include "query.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>

namespace dcgym {
namespace {

constexpr std::int64_t kMostUs = 3'600'000'000;
constexpr std::uint64_t kMostAskedBytes = std::uint64_t{1} << 30;
constexpr std::size_t kMostDecimals = 3;
constexpr std::string_view kTimeSuffix = "_us";
constexpr std::size_t kLongestName = 32;

std::optional<std::int64_t> parse_digits(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || text.front() == '-')
        return std::nullopt;
    return value;
}

std::optional<std::int64_t> parse_us(std::string_view text) {
    const std::size_t point = std::min(text.find('.'), text.size());
    const std::string_view decimals = text.substr(std::min(point + 1, text.size()));
    const auto whole = parse_digits(text.substr(0, point));
    if (!whole || *whole > kMostUs || decimals.size() > kMostDecimals)
        return std::nullopt;
    std::string padded{decimals};
    padded.resize(kMostDecimals, '0');
    const auto fraction = parse_digits(padded);
    if (!fraction)
        return std::nullopt;
    return *whole * 1000 + *fraction;
}

bool parse_pair(std::string_view key, std::string_view value, ResourceNames names, Work &work) {
    if (key == "bytes") {
        const auto bytes = parse_digits(value);
        if (!bytes || static_cast<std::uint64_t>(*bytes) > kMostAskedBytes)
            return false;
        work.bytes = static_cast<std::uint64_t>(*bytes);
        return true;
    }
    if (!key.ends_with(kTimeSuffix))
        return false;
    key.remove_suffix(kTimeSuffix.size());
    const auto found = std::find(names.begin(), names.end(), key);
    const auto demand_ns = parse_us(value);
    if (found == names.end() || !demand_ns || work.stages.size() == ServiceStation::kMostStages)
        return false;
    work.stages.push_back({*demand_ns, static_cast<std::uint32_t>(found - names.begin())});
    return true;
}

} // namespace

std::optional<Work> parse_work(std::string_view query, ResourceNames names) {
    Work work;
    while (!query.empty()) {
        const std::size_t end = std::min(query.find('&'), query.size());
        const std::string_view pair = query.substr(0, end);
        const std::size_t equals = pair.find('=');
        if (equals == std::string_view::npos ||
            !parse_pair(pair.substr(0, equals), pair.substr(equals + 1), names, work))
            return std::nullopt;
        query.remove_prefix(std::min(end + 1, query.size()));
    }
    return work;
}

std::optional<Work> parse_target(std::string_view target, ResourceNames names) {
    constexpr std::string_view path = "/work?";
    if (!target.starts_with(path))
        return std::nullopt;
    return parse_work(target.substr(path.size()), names);
}

std::string work_query(const std::vector<ServiceStage> &stages, std::uint64_t bytes,
                       ResourceNames names) {
    std::string out;
    for (const ServiceStage &stage : stages) {
        char text[32];
        std::snprintf(text, sizeof(text), "%lld.%03lld",
                      static_cast<long long>(stage.demand_ns / 1000),
                      static_cast<long long>(stage.demand_ns % 1000));
        out += names[stage.resource];
        out += std::string{kTimeSuffix} + "=" + text + "&";
    }
    return out + "bytes=" + std::to_string(bytes);
}

bool is_resource_name(std::string_view text) {
    const auto is_plain = [](unsigned char c) {
        return std::isalnum(c) || c == '_' || c == '-' || c == '.';
    };
    return !text.empty() && text.size() <= kLongestName &&
           std::all_of(text.begin(), text.end(), is_plain);
}

} // namespace dcgym
