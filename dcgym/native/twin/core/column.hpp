// SPDX-License-Identifier: Apache-2.0
// What a twin shows to NumPy.
#pragma once

#include <pybind11/numpy.h>

#include <cstddef>
#include <vector>

namespace dcgym::twin {

namespace py = pybind11;

// An array and its memory, which may be written without the interpreter lock.
template <typename Value> struct Column {
    explicit Column(const std::vector<size_t> &shape) : array(shape), data(array.mutable_data()) {}

    py::array_t<Value> array;
    Value *data;
};

} // namespace dcgym::twin
