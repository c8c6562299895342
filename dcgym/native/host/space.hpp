// SPDX-License-Identifier: Apache-2.0
// The space of an emulated host: a network namespace, and a pid and a mount namespace that go with
// it, with a first process of their own.
#pragma once

#include <string>
#include <vector>

namespace dcgym {

/// Hold spaces, one for each argument, until standard input ends; the processes in them end then.
///
/// A process for each has its namespaces in /proc/PID/ns: `net`, `mnt`, `pid_for_children`. Their
/// numbers go to standard output, a line each, once all spaces are made.
///
/// `access` is what programs of the hosts may do: "limited", "read-only" or "full". Empty means
/// that each argument is the network namespace of a space, /proc/PID/ns/net: the new one lies in
/// it. Throws std::exception.
void hold_spaces(const std::string &access, const std::vector<std::string> &networks);

/// Let this process join a space, but for its pid namespace, which is its parent's to choose. Its
/// folder stays the one of that name. Throws std::exception.
void join_space(const std::string &network);

} // namespace dcgym
