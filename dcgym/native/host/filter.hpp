// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dcgym {

/// Refuse this process the system calls that reach beyond the namespaces of an emulated host.
///
/// Dropped capabilities do not close them: any process may make a user namespace, in which it has
/// all capabilities. Loading takes CAP_SYS_ADMIN, so capabilities are dropped afterwards. The other
/// way, PR_SET_NO_NEW_PRIVS, would break setuid programs. Throws std::runtime_error.
void load_filter();

} // namespace dcgym
