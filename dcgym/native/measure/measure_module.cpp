// SPDX-License-Identifier: Apache-2.0
// Python face of the measurements. It checks shapes and nothing else: dcgym.tasks.network made
// them.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "decisions.hpp"
#include "interval.h"
#include "python_signals.hpp"
#include "ratios.hpp"
#include "totals.hpp"

namespace py = pybind11;
using namespace py::literals;
using namespace dcgym::measure;

namespace {

template <typename Value> using In = py::array_t<Value, py::array::c_style | py::array::forcecast>;
using Words = In<uint64_t>;
using Numbers = In<double>;
using Mask = In<bool>;
using Times = In<int64_t>;

void check(bool is_right, const char *what) {
    if (!is_right)
        throw std::invalid_argument(what);
}

// Two states of E copies, and the time between them.
struct Interval {
    Rows rows(size_t copy) const { return {before + copy * words, after + copy * words}; }

    size_t words;
    const uint64_t *before, *after;
    const double *duration_s;
};

// What is observed of E copies, and where it is written.
struct Observation {
    Observation(const Observer &observer, size_t n_copies, const Numbers &settings,
                const std::optional<Numbers> &last)
        : copies(n_copies), cells(observer.n_ratios() * observer.n_ports()),
          tail(copies == 0 ? 0 : static_cast<size_t>(settings.size()) / copies),
          ratios({copies, observer.n_ratios(), observer.n_ports()}),
          rows({copies, observer.row_size() + tail}), settings_(settings.data()),
          last_(last ? last->data() : ratios.data()), ratios_(ratios.mutable_data()),
          rows_(rows.mutable_data()) {
        check(settings.size() == static_cast<py::ssize_t>(tail * copies), "settings of each copy");
        check(!last || last->size() == ratios.size(), "last ratios of each copy");
    }

    void take(const Observer &observer, const Interval &interval, size_t copy) const {
        double *now = ratios_ + copy * cells;
        float *out = rows_ + copy * (observer.row_size() + tail);
        observer.measure(interval.rows(copy), interval.duration_s[copy], now);
        observer.show(now, last_ + copy * cells, out);
        out += observer.row_size();
        for (const double *set = settings_ + copy * tail, *end = set + tail; set != end; set++)
            *out++ = std::min(std::max(static_cast<float>(*set), 0.0F), 1.0F);
    }

    size_t copies, cells, tail;
    py::array_t<double> ratios; // (E, F, P)
    py::array_t<float> rows;    // (E, n)

  private:
    const double *settings_, *last_;
    double *ratios_;
    float *rows_;
};

// What an interval led to in each of E copies, and where it is written.
struct Sums {
    Sums(size_t copies, const Times &before_ns, const Numbers &deliverable_bps,
         const std::optional<Mask> &is_hidden)
        : totals({n_totals, copies}), duration_s({copies, size_t{1}}),
          totals_(totals.mutable_data()), lengths_s_(duration_s.mutable_data()),
          before_ns_(before_ns.data()), deliverable_bps_(deliverable_bps.data()),
          is_hidden_(is_hidden ? is_hidden->data() : nullptr), copies_(copies) {
        const auto size = static_cast<py::ssize_t>(copies);
        check(before_ns.size() == size, "both times of each copy");
        check(deliverable_bps.size() == size, "deliverable_bps of each copy");
        check(!is_hidden || is_hidden->size() == size, "is_hidden of each copy");
    }

    void take(const Totals &of, const Interval &interval, const int64_t *after_ns, size_t copy) {
        lengths_s_[copy] = static_cast<double>(after_ns[copy] - before_ns_[copy]) / 1e9;
        of.measure(interval.rows(copy), lengths_s_[copy], deliverable_bps_[copy],
                   is_hidden_ != nullptr && is_hidden_[copy], totals_ + copy, copies_);
    }

    py::array_t<double> totals;     // (K, E), a row for each of `METRICS` and `REWARD_TOTALS`
    py::array_t<double> duration_s; // (E, 1)

  private:
    double *totals_, *lengths_s_;
    const int64_t *before_ns_;
    const double *deliverable_bps_;
    const bool *is_hidden_;
    size_t copies_;
};

class Measure {
  public:
    using Given = std::tuple<size_t, bool, std::string, std::vector<size_t>>;

    Measure(Layout layout, const std::vector<Given> &ratios,
            const std::vector<std::pair<size_t, bool>> &columns, std::vector<size_t> ports)
        : layout_(std::make_unique<Layout>(std::move(layout))), totals_(*layout_),
          observer_(*layout_, read_ratios(ratios), read_columns(columns), std::move(ports)) {}

    // The totals, (K, E); and the length of each interval, (E, 1).
    py::tuple totals(const Words &before, const Words &after, const Times &before_ns,
                     const Times &after_ns, const Numbers &deliverable_bps,
                     const std::optional<Mask> &is_hidden) const {
        const auto copies = static_cast<size_t>(after_ns.size());
        Sums sums(copies, before_ns, deliverable_bps, is_hidden);
        const Interval found = interval(before, after, sums.duration_s);
        for (size_t i = 0; i < copies; i++)
            sums.take(totals_, found, after_ns.data(), i);
        return py::make_tuple(std::move(sums.totals), std::move(sums.duration_s));
    }

    // The observations, (E, n), and the ratios that they are made of, (E, F, P).
    py::tuple observe(const Words &before, const Words &after, const Numbers &duration_s,
                      const Numbers &settings, const std::optional<Numbers> &last) const {
        const auto copies = static_cast<size_t>(duration_s.size());
        const Interval found = interval(before, after, duration_s);
        Observation made(observer_, copies, settings, last);
        for (size_t i = 0; i < copies; i++)
            made.take(observer_, found, i);
        return py::make_tuple(std::move(made.rows), std::move(made.ratios));
    }

    // Lets all copies run until their times, and measures each: when it ended, its state, whether
    // its plan has ended, and what totals() and observe() return.
    py::tuple run(const py::capsule &capsule, const Times &until_ns, const Words &before,
                  const Times &before_ns, const Numbers &deliverable_bps,
                  const std::optional<Mask> &is_hidden, const Numbers &settings,
                  const std::optional<Numbers> &last) const {
        const auto *runner = static_cast<const dcgym_interval_runner *>(
            PyCapsule_GetPointer(capsule.ptr(), DCGYM_INTERVAL_RUNNER));
        if (runner == nullptr)
            throw py::error_already_set();
        const size_t copies = runner->copies;
        check(until_ns.size() == static_cast<py::ssize_t>(copies), "a time for each copy");
        check(runner->words == layout_->words, "the states of another network");
        py::array_t<int64_t> now_ns(copies);
        py::array_t<uint64_t> after({copies, layout_->words});
        py::array_t<bool> finished(copies);
        Sums sums(copies, before_ns, deliverable_bps, is_hidden);
        Observation made(observer_, copies, settings, last);
        const Interval found = interval(before, after, sums.duration_s);
        auto take = [&, now = now_ns.data()](size_t copy) {
            sums.take(totals_, found, now, copy);
            made.take(observer_, found, copy);
        };
        const dcgym_interval_sink sink{
            &take, [](void *self, size_t copy) { (*static_cast<decltype(take) *>(self))(copy); }};
        int64_t *now = now_ns.mutable_data();
        uint64_t *words = after.mutable_data();
        bool *is_over = finished.mutable_data();
        {
            const py::gil_scoped_release released;
            runner->run(runner->self, until_ns.data(), now, words, is_over, &sink);
        }
        return py::make_tuple(std::move(now_ns), std::move(after), std::move(finished),
                              std::move(sums.totals), std::move(sums.duration_s),
                              std::move(made.rows), std::move(made.ratios));
    }

  private:
    static std::vector<Ratio> read_ratios(const std::vector<Given> &given) {
        std::vector<Ratio> ratios;
        for (const auto &[part, is_level, whole, counters] : given) {
            Ratio ratio{part, is_level, Whole::counters, counters};
            if (whole == "queue_limit")
                ratio.whole = Whole::queue_limit;
            else if (whole == "link_bytes")
                ratio.whole = Whole::link_bytes;
            ratios.push_back(std::move(ratio));
        }
        return ratios;
    }

    static std::vector<Shown> read_columns(const std::vector<std::pair<size_t, bool>> &given) {
        std::vector<Shown> columns;
        for (const auto &[ratio, is_change] : given)
            columns.push_back({ratio, is_change});
        return columns;
    }

    Interval interval(const Words &before, const Words &after, const Numbers &duration_s) const {
        const auto size = static_cast<py::ssize_t>(layout_->words) * duration_s.size();
        check(before.size() == size && after.size() == size, "a row of words for each copy");
        return {layout_->words, before.data(), after.data(), duration_s.data()};
    }

    std::unique_ptr<Layout> layout_; // the others refer to it
    Totals totals_;
    Observer observer_;
};

// Bounds of actions of n numbers, and full rates of n hosts.
class Bounds {
  public:
    Bounds(std::vector<double> low, std::vector<double> high)
        : low_(std::move(low)), high_(std::move(high)) {
        check(!low_.empty() && low_.size() == high_.size(), "two bounds of each number");
    }

    // Actions, (..., n), within the bounds; None where they are no finite numbers of that shape.
    std::optional<py::array_t<double>> keep(const Numbers &actions) const {
        const py::ssize_t axes = actions.ndim();
        if (axes == 0 || actions.shape(axes - 1) != static_cast<py::ssize_t>(low_.size()))
            return std::nullopt;
        py::array_t<double> kept(std::vector<py::ssize_t>(actions.shape(), actions.shape() + axes));
        const auto count = static_cast<size_t>(actions.size());
        if (!keep_within(actions.data(), count, low_, high_, kept.mutable_data()))
            return std::nullopt;
        return kept;
    }

  private:
    std::vector<double> low_, high_;
};

class Rates {
  public:
    explicit Rates(std::vector<double> rates_bps) : rates_bps_(std::move(rates_bps)) {}

    // Shares of every copy, (E, n), in bits per second.
    py::array_t<uint64_t> of(const Numbers &shares) const {
        const auto hosts = static_cast<py::ssize_t>(rates_bps_.size());
        check(shares.ndim() == 2 && shares.shape(1) == hosts, "a share of each host");
        py::array_t<uint64_t> found({shares.shape(0), hosts});
        to_rates(shares.data(), static_cast<size_t>(shares.size()), rates_bps_,
                 found.mutable_data());
        return found;
    }

  private:
    std::vector<double> rates_bps_;
};

// What nothing changes is shared by copies of what holds it.
py::object itself(const py::object &self, const py::dict &) {
    return self;
}

} // namespace

PYBIND11_MODULE(_measure, module) {
    module.doc() = "Measurements of dcgym's network tasks.";
    dcgym::translate_ends();
    module.attr("METRICS") = py::cast(metric_names);
    module.attr("REWARD_TOTALS") = py::cast(reward_names);
    py::class_<Measure>(module, "Measure")
        .def(py::init([](size_t words, dcgym::Starts ports, dcgym::Starts hosts,
                         std::vector<double> port_rates_bps, std::vector<double> queue_limits_bytes,
                         std::vector<double> host_rates_bps,
                         const std::vector<Measure::Given> &ratios,
                         const std::vector<std::pair<size_t, bool>> &columns,
                         std::vector<size_t> observed) {
                 return Measure({words, std::move(ports), std::move(hosts),
                                 std::move(port_rates_bps), std::move(queue_limits_bytes),
                                 std::move(host_rates_bps)},
                                ratios, columns, std::move(observed));
             }),
             "words"_a, "ports"_a, "hosts"_a, "port_rates_bps"_a, "queue_limits_bytes"_a,
             "host_rates_bps"_a, "ratios"_a, "columns"_a, "observed"_a)
        .def("__deepcopy__", itself)
        .def("totals", &Measure::totals, "before"_a, "after"_a, "before_ns"_a, "after_ns"_a,
             "deliverable_bps"_a, "is_hidden"_a)
        .def("observe", &Measure::observe, "before"_a, "after"_a, "duration_s"_a, "settings"_a,
             "last"_a)
        .def("run", &Measure::run, "runner"_a, "until_ns"_a, "before"_a, "before_ns"_a,
             "deliverable_bps"_a, "is_hidden"_a, "settings"_a, "last"_a);
    py::class_<Bounds>(module, "Bounds")
        .def(py::init<std::vector<double>, std::vector<double>>(), "low"_a, "high"_a)
        .def("__deepcopy__", itself)
        .def("keep", &Bounds::keep, "actions"_a);
    py::class_<Rates>(module, "Rates")
        .def(py::init<std::vector<double>>(), "rates_bps"_a)
        .def("__deepcopy__", itself)
        .def("of", &Rates::of, "shares"_a);
}
