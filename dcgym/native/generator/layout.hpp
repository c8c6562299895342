// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace dcgym {

/// The layouts of generator.h and http.h as JSON, for readers in other languages to check
/// themselves against.
std::string layout_json();

} // namespace dcgym
