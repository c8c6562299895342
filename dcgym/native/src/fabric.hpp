// SPDX-License-Identifier: Apache-2.0
// Loader of fabric.bpf.o: the switches of one emulation, all in one network namespace.
#pragma once

#include "bpf_object.hpp"
#include "fabric.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace dcgym {

struct FabricSize {
	uint32_t switches;
	uint32_t hosts;
	uint32_t ports;
	uint32_t groups;
	uint32_t ifindexes;
	bool has_flow_matrix;
};

// Vose's alias table: a hash picks a member with a probability proportional to its weight.
dcgym_group make_group(uint32_t salt, const std::vector<uint32_t> &ifindexes,
		       const std::vector<double> &weights);

class Fabric {
      public:
	Fabric(const std::string &object_path, const FabricSize &size);

	void set_port(uint32_t ifindex, const dcgym_port_config &config);
	void set_group(uint32_t group_id, uint32_t salt, const std::vector<uint32_t> &ifindexes,
		       const std::vector<double> &weights);
	void set_route(uint32_t switch_id, uint32_t host_number, uint32_t group_id);
	void attach(uint32_t ifindex, bool forward = true);
	void detach(uint32_t ifindex);

	int port_map_fd() const;
	// Bytes by port and source host, row by row; counted only if the size says so.
	int flow_map_fd() const;
	std::map<std::string, uint64_t> drop_counters() const;

	// Runs a program on one packet: its verdict and the packet it leaves.
	std::pair<uint32_t, std::string> test_run(const char *program, const std::string &packet,
						  uint32_t ifindex) const;

	// Releases programs and maps that nothing else holds; idempotent.
	void close() { object_.reset(); }

      private:
	void resize_maps();
	void update(const char *map, uint32_t key, const void *value, size_t value_bytes);
	bpf_object *object() const;
	int map_fd(const char *name) const;
	int program_fd(const char *name) const;
	void attach_program(uint32_t ifindex, bpf_tc_attach_point point, const char *program);

	FabricSize size_;
	ObjectPtr object_;
};

} // namespace dcgym
