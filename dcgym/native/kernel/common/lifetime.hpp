// SPDX-License-Identifier: Apache-2.0
// The end of a process whose owner is gone.
#pragma once

namespace dcgym {

void die_with_parent();
// Ends this process, and with it its pid namespace, as soon as `channel_fd` hangs up or the process
// behind `owner_pidfd` ends. A thread of its own: it needs neither the interpreter nor its lock.
void watch_owner(int channel_fd, int owner_pidfd);

} // namespace dcgym
