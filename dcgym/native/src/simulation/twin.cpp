// SPDX-License-Identifier: Apache-2.0
#include "twin.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

namespace dcgym::simulation {
namespace {

Range range(const py::handle &pair) {
	const auto values = pair.cast<std::pair<int64_t, int64_t>>();
	return {values.first, values.second};
}

std::vector<ServerConfig> server_configs(const py::dict &config) {
	const auto workers = config["workers"].cast<std::vector<uint32_t>>();
	const auto slots = config["slots"].cast<std::vector<uint32_t>>();
	const auto cpu_speed = config["cpu_speed"].cast<std::vector<double>>();
	const auto io_speed = config["io_speed"].cast<std::vector<double>>();
	const auto weight = config["weight"].cast<std::vector<double>>();
	const auto present = config["present"].cast<std::vector<bool>>();
	std::vector<ServerConfig> servers;
	for (size_t i = 0; i < workers.size(); i++)
		servers.push_back({workers[i], slots[i], cpu_speed[i], io_speed[i], weight[i], present[i]});
	return servers;
}

std::vector<ApplicationConfig> application_configs(const py::dict &config) {
	using Stage = std::tuple<uint8_t, uint8_t, double, double>;
	std::vector<ApplicationConfig> applications;
	for (const auto &[rate, stages] :
	     config["applications"].cast<std::vector<std::pair<double, std::vector<Stage>>>>()) {
		ApplicationConfig application{rate, {}};
		for (const auto &[resource, kind, mean_ns, shape] : stages)
			application.stages.push_back({static_cast<Resource>(resource),
			                              Distribution(static_cast<Kind>(kind), mean_ns, shape)});
		applications.push_back(std::move(application));
	}
	return applications;
}

std::vector<ScheduledChange> changes(const py::dict &config) {
	using Event = std::tuple<int64_t, uint8_t, std::vector<uint32_t>, double>;
	std::vector<ScheduledChange> found;
	for (const auto &[at_ns, kind, targets, value] : config["events"].cast<std::vector<Event>>())
		found.push_back({at_ns, static_cast<Change>(kind), targets, value});
	return found;
}

std::shared_ptr<const Config> read_config(const py::dict &config, size_t record_limit,
                                          int64_t warm_up_ns) {
	const auto read = std::make_shared<Config>();
	read->servers = server_configs(config);
	read->applications = application_configs(config);
	read->balancers = config["balancers"].cast<uint32_t>();
	read->backlog = config["backlog"].cast<uint32_t>();
	read->flow_table_buckets = config["flow_table_buckets"].cast<uint32_t>();
	read->flow_table_ways = config["flow_table_ways"].cast<uint32_t>();
	read->syn_timeout_ns = config["syn_timeout_ns"].cast<int64_t>();
	read->latency_ns = range(config["latency_ns"]);
	read->packet_interval_ns = config["packet_interval_ns"].cast<int64_t>();
	read->probe_interval_ns = config["probe_interval_ns"].cast<int64_t>();
	read->probe_delay_ns = range(config["probe_delay_ns"]);
	read->changes = changes(config);
	read->warm_up_ns = warm_up_ns;
	read->record_limit = record_limit;
	return read;
}

py::list list_of(const std::vector<Server> &servers, const std::function<double(const Server &)> &value) {
	py::list list;
	for (const Server &server : servers)
		list.append(value(server));
	return list;
}

py::dict completion_dict(const CompletionTimes &times) {
	constexpr double ns_per_us = 1000;
	const auto n = static_cast<double>(std::max<uint64_t>(times.count, 1));
	const double mean = static_cast<double>(times.sum_ns) / n;
	const double variance = std::max(0.0, times.squares / n - mean * mean);
	py::dict found;
	found["count"] = times.count;
	found["mean_us"] = mean / ns_per_us;
	found["std_us"] = std::sqrt(variance) / ns_per_us;
	constexpr std::pair<const char *, double> percentiles[] = {
	    {"p50_us", 0.5}, {"p90_us", 0.9}, {"p95_us", 0.95}, {"p99_us", 0.99}};
	for (const auto &[name, fraction] : percentiles)
		found[name] = times.histogram.quantile(fraction, times.count) / ns_per_us;
	return found;
}

} // namespace

Twin::Twin(const py::dict &config, size_t n_envs, size_t threads, size_t record_limit,
           int64_t warm_up_ns)
    : config_(read_config(config, record_limit, warm_up_ns)),
      threads_(std::min(threads, n_envs)), balancers_(config_->balancers),
      servers_(config_->servers.size()) {
	if (servers_ > DCGYM_RULE_SERVERS)
		throw py::value_error("servers: at most " + std::to_string(DCGYM_RULE_SERVERS));
	for (size_t env = 0; env < n_envs; env++)
		simulations_.emplace_back(config_);
}

void Twin::for_each(const std::function<void(size_t)> &work) const {
	const py::gil_scoped_release released;
	const size_t n = simulations_.size();
	const auto share = [&](size_t thread) {
		for (size_t env = thread; env < n; env += threads_)
			work(env);
	};
	std::vector<std::jthread> others;
	for (size_t thread = 1; thread < threads_; thread++)
		others.emplace_back(share, thread);
	share(0);
}

template <typename Work> void Twin::each_balancer(int balancer, const Mask &mask, Work &&change) {
	check_begun();
	const size_t first = balancer < 0 ? 0 : static_cast<size_t>(balancer);
	const size_t end = balancer < 0 ? balancers_ : first + 1;
	for (size_t env = 0; env < simulations_.size(); env++)
		for (size_t b = first; mask.data()[env] && b < end; b++)
			change(env, b, simulations_[env].balancers()[b]);
}

void Twin::check_begun() const {
	for (const Simulation &simulation : simulations_)
		if (!simulation.begun())
			throw std::runtime_error("reset() must come first, for every environment");
}

void Twin::reset(const py::array_t<uint64_t, py::array::c_style> &seeds, const Mask &mask) {
	for_each([&, chosen = mask.data(), seed = seeds.data()](size_t env) {
		if (chosen[env])
			simulations_[env].reset(seed[env]);
	});
}

void Twin::set_rule(uint32_t rule, int balancer, const Mask &mask) {
	each_balancer(balancer, mask, [&](size_t, size_t, Balancer &b) { b.set_rule(rule); });
}

void Twin::set_weights(const Doubles &weights, int balancer, const Mask &mask) {
	each_balancer(balancer, mask, [&](size_t env, size_t number, Balancer &b) {
		const size_t row = balancer < 0 ? env * balancers_ + number : env;
		b.set_weights(weights.data() + row * servers_);
	});
}

void Twin::advance(const Integers &until_ns) {
	check_begun();
	for_each([&, until = until_ns.data()](size_t env) { simulations_[env].advance(until[env]); });
}

py::dict Twin::observe() {
	check_begun();
	const size_t e = simulations_.size(), b = balancers_, n = servers_;
	Integers time(static_cast<py::ssize_t>(e)), ongoing({e, b, n}), flows({e, b, n}), completed({e, b, n}),
	    packets({e, b, n}), untracked({e, b}), busy({e, b, n}), queue({e, b, n}),
	    asked({e, b, n});
	Doubles duration({e, b, n, size_t{n_reducers}}), completion({e, b, n, size_t{n_reducers}}),
	    interarrival({e, b, size_t{n_reducers}}), weights({e, b, n});
	py::array_t<bool> eligible({e, n}), up({e, b});
	for_each([&, time = time.mutable_data(), ongoing = ongoing.mutable_data(),
	          flows = flows.mutable_data(), completed = completed.mutable_data(),
	          packets = packets.mutable_data(), untracked = untracked.mutable_data(),
	          busy = busy.mutable_data(), queue = queue.mutable_data(),
	          asked = asked.mutable_data(), duration = duration.mutable_data(),
	          completion = completion.mutable_data(), interarrival = interarrival.mutable_data(),
	          weights = weights.mutable_data(), eligible = eligible.mutable_data(),
	          up = up.mutable_data()](size_t env) {
		Simulation &simulation = simulations_[env];
		const int64_t now_ns = time[env] = simulation.now_ns();
		for (size_t i = 0; i < n; i++)
			eligible[env * n + i] = simulation.servers()[i].eligible;
		for (size_t j = 0; j < b; j++) {
			Balancer &balancer = simulation.balancers()[j];
			const size_t row = env * b + j;
			up[row] = balancer.up;
			untracked[row] = static_cast<int64_t>(balancer.untracked);
			balancer.interarrival.read(now_ns, interarrival + row * n_reducers);
			for (size_t i = 0; i < n; i++) {
				const size_t at = row * n + i;
				ServerFeatures &server = balancer.features[i];
				const Probe &probe =
				    balancer.answer_ns[i] <= now_ns ? balancer.asked[i] : balancer.answered[i];
				ongoing[at] = balancer.ongoing[i];
				flows[at] = static_cast<int64_t>(server.flows);
				completed[at] = static_cast<int64_t>(server.completed);
				packets[at] = static_cast<int64_t>(server.packets);
				weights[at] = balancer.weight(static_cast<uint16_t>(i));
				busy[at] = probe.busy;
				queue[at] = probe.queue;
				asked[at] = probe.time_ns;
				server.duration.read(now_ns, duration + at * n_reducers);
				server.completion.read(now_ns, completion + at * n_reducers);
			}
		}
	});
	using namespace py::literals;
	return py::dict("time_ns"_a = time, "ongoing"_a = ongoing, "flows"_a = flows,
	                "completed"_a = completed, "packets"_a = packets, "untracked"_a = untracked,
	                "duration_us"_a = duration, "completion_us"_a = completion,
	                "interarrival_us"_a = interarrival, "eligible"_a = eligible,
	                "balancer_up"_a = up, "weights"_a = weights, "probe_busy"_a = busy,
	                "probe_queue"_a = queue, "probe_time_ns"_a = asked);
}

py::dict Twin::truth() {
	check_begun();
	const size_t e = simulations_.size(), b = balancers_, n = servers_;
	Integers queue({e, n}), assigned({e, n}), busy({e, n});
	Doubles remaining({e, n}), capacity({e, n}), parts({e, b, n});
	std::fill_n(parts.mutable_data(), e * b * n, 0.0);
	for_each([&, queue = queue.mutable_data(), assigned = assigned.mutable_data(),
	          busy = busy.mutable_data(), remaining = remaining.mutable_data(),
	          capacity = capacity.mutable_data(), parts = parts.mutable_data()](size_t env) {
		const Simulation &simulation = simulations_[env];
		for (size_t i = 0; i < n; i++) {
			const Server &server = simulation.servers()[i];
			const size_t at = env * n + i;
			queue[at] = server.queue();
			assigned[at] = simulation.assigned(i);
			busy[at] = server.busy();
			remaining[at] = simulation.remaining_ns(i);
			capacity[at] = server.up ? server.capacity() : 0;
		}
		simulation.remaining_by_balancer(parts + env * b * n);
	});
	using namespace py::literals;
	return py::dict("queue"_a = queue, "assigned"_a = assigned, "busy_workers"_a = busy,
	                "remaining_ns"_a = remaining, "capacity"_a = capacity,
	                "remaining_by_balancer_ns"_a = parts);
}

py::array Twin::records(size_t env) {
	const std::vector<Record> found = simulations_.at(env).take_records();
	return py::array_t<Record>(static_cast<py::ssize_t>(found.size()), found.data());
}

py::dict Twin::summary(size_t env) {
	check_begun();
	Simulation &simulation = simulations_.at(env);
	simulation.integrate();
	const Statistics &statistics = simulation.statistics();
	const auto measured_ns = static_cast<double>(std::max<int64_t>(simulation.measured_ns(), 1));
	const std::vector<Server> &servers = simulation.servers();
	py::list applications;
	for (const CompletionTimes &times : statistics.completion)
		applications.append(completion_dict(times));
	const auto average = [](double sum, uint64_t n) { return n ? sum / static_cast<double>(n) : 1.0; };
	py::dict found;
	found["duration_s"] = measured_ns / 1e9;
	found["events"] = simulation.events();
	found["arrivals"] = statistics.arrivals;
	for (size_t i = 0; i < statistics.outcomes.size(); i++) {
		constexpr const char *names[] = {"completed", "rejected", "broken", "lost"};
		found[names[i]] = statistics.outcomes[i];
	}
	found["pcc_violations"] = statistics.pcc_violations;
	found["untracked"] = statistics.untracked;
	found["records_dropped"] = statistics.records_dropped;
	found["in_flight"] = simulation.in_flight();
	found["applications"] = applications;
	found["server_flows"] = list_of(servers, [](const Server &s) { return double(s.flows); });
	found["server_completed"] = list_of(servers, [](const Server &s) { return double(s.completed); });
	found["queue_mean"] = list_of(
	    servers, [&](const Server &s) { return static_cast<double>(s.queue_time_ns) / measured_ns; });
	found["busy_mean"] = list_of(
	    servers, [&](const Server &s) { return static_cast<double>(s.busy_time_ns) / measured_ns; });
	const Evenness &queue = statistics.queue, &remaining = statistics.remaining;
	found["jain_queue"] = average(queue.jain, queue.samples);
	found["jain_remaining"] = average(remaining.jain, remaining.samples);
	found["overprovision_queue"] = average(queue.overprovision, queue.samples);
	found["overprovision_remaining"] = average(remaining.overprovision, remaining.samples);
	return found;
}

py::bytes Twin::region(size_t env, size_t balancer) {
	check_begun();
	const auto region = std::make_unique<dcgym_lb_region>();
	Simulation &simulation = simulations_.at(env);
	simulation.balancers().at(balancer).publish(*region, simulation.now_ns());
	return {reinterpret_cast<const char *>(region.get()), sizeof *region};
}

} // namespace dcgym::simulation

void bind_twin(pybind11::module_ &module) {
	namespace py = pybind11;
	using namespace dcgym::simulation;
	PYBIND11_NUMPY_DTYPE(Record, arrival_ns, served_ns, end_ns, cpu_ns, io_ns, flow, application,
	                     balancer, server, outcome, tracked);
	py::class_<Twin>(module, "BalancingTwin")
	    .def(py::init<const py::dict &, size_t, size_t, size_t, int64_t>())
	    .def("reset", &Twin::reset)
	    .def("set_rule", &Twin::set_rule)
	    .def("set_weights", &Twin::set_weights)
	    .def("advance", &Twin::advance)
	    .def("observe", &Twin::observe)
	    .def("truth", &Twin::truth)
	    .def("records", &Twin::records)
	    .def("summary", &Twin::summary)
	    .def("region", &Twin::region);
}
