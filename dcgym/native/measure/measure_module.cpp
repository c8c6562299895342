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
    Interval(const Layout &layout, const Words &before, const Words &after,
             const Numbers &duration_s)
        : words(layout.words), copies(static_cast<size_t>(duration_s.size())),
          before_(before.data()), after_(after.data()), duration_s_(duration_s.data()) {
        const auto size = static_cast<py::ssize_t>(words * copies);
        check(before.size() == size && after.size() == size, "a row of words for each copy");
    }

    Rows rows(size_t copy) const { return {before_ + copy * words, after_ + copy * words}; }
    double duration_s(size_t copy) const { return duration_s_[copy]; }

    size_t words, copies;

  private:
    const uint64_t *before_, *after_;
    const double *duration_s_;
};

class Measure {
  public:
    using Given = std::tuple<size_t, bool, std::string, std::vector<size_t>>;

    Measure(Layout layout, const std::vector<Given> &ratios,
            const std::vector<std::pair<size_t, bool>> &columns, std::vector<size_t> ports)
        : layout_(std::make_unique<Layout>(std::move(layout))), totals_(*layout_),
          observer_(*layout_, read_ratios(ratios), read_columns(columns), std::move(ports)) {}

    // (K, E), a row for each of `TOTALS`; and the length of each interval, (E, 1).
    std::pair<py::array_t<double>, py::array_t<double>>
    totals(const Words &before, const Words &after, const Times &before_ns, const Times &after_ns,
           const Numbers &deliverable_bps, const std::optional<Mask> &is_hidden) {
        const auto copies = static_cast<size_t>(after_ns.size());
        check(before_ns.size() == after_ns.size(), "both times of each copy");
        check(deliverable_bps.size() == after_ns.size(), "deliverable_bps of each copy");
        check(!is_hidden || is_hidden->size() == after_ns.size(), "is_hidden of each copy");
        py::array_t<double> duration_s({copies, size_t{1}});
        double *lengths_s = duration_s.mutable_data();
        for (size_t i = 0; i < copies; i++)
            lengths_s[i] = static_cast<double>(after_ns.data()[i] - before_ns.data()[i]) / 1e9;
        const Interval interval(*layout_, before, after, duration_s);
        py::array_t<double> made({total_names.size(), copies});
        double *out = made.mutable_data();
        for (size_t i = 0; i < copies; i++)
            totals_.measure(interval.rows(i), interval.duration_s(i), deliverable_bps.data()[i],
                            is_hidden && is_hidden->data()[i], out + i, copies);
        return {std::move(made), std::move(duration_s)};
    }

    // The observations, (E, n), and the ratios that they are made of, (E, F, P).
    std::pair<py::array_t<float>, py::array_t<double>>
    observe(const Words &before, const Words &after, const Numbers &duration_s,
            const Numbers &settings, const std::optional<Numbers> &last) const {
        const Interval interval(*layout_, before, after, duration_s);
        const size_t copies = interval.copies, cells = observer_.n_ratios() * observer_.n_ports();
        const size_t tail = copies == 0 ? 0 : static_cast<size_t>(settings.size()) / copies;
        check(settings.size() == static_cast<py::ssize_t>(tail * copies), "settings of each copy");
        py::array_t<double> ratios({copies, observer_.n_ratios(), observer_.n_ports()});
        check(!last || last->size() == ratios.size(), "last ratios of each copy");
        py::array_t<float> made({copies, observer_.row_size() + tail});
        double *now = ratios.mutable_data();
        float *out = made.mutable_data();
        const double *then = last ? last->data() : now, *set = settings.data();
        for (size_t i = 0; i < copies; i++, now += cells, then += cells) {
            observer_.measure(interval.rows(i), interval.duration_s(i), now);
            observer_.show(now, then, out);
            out += observer_.row_size();
            for (size_t j = 0; j < tail; j++)
                *out++ = std::min(std::max(static_cast<float>(*set++), 0.0F), 1.0F);
        }
        return {std::move(made), std::move(ratios)};
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

    std::unique_ptr<Layout> layout_; // the others refer to it
    Totals totals_;
    Observer observer_;
};

} // namespace

PYBIND11_MODULE(_measure, module) {
    module.doc() = "Measurements of dcgym's network tasks.";
    py::tuple names(total_names.size());
    for (size_t i = 0; i < total_names.size(); i++)
        names[i] = py::str(total_names[i]);
    module.attr("TOTALS") = names;
    py::class_<Measure>(module, "Measure")
        .def(py::init([](size_t words, Starts ports, Starts hosts,
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
        // Nothing in it changes but scratch memory, which the interpreter lock guards.
        .def("__deepcopy__", [](const py::object &self, const py::dict &) { return self; })
        .def("totals", &Measure::totals, "before"_a, "after"_a, "before_ns"_a, "after_ns"_a,
             "deliverable_bps"_a, "is_hidden"_a)
        .def("observe", &Measure::observe, "before"_a, "after"_a, "duration_s"_a, "settings"_a,
             "last"_a);
}
