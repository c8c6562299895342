// SPDX-License-Identifier: Apache-2.0
// What a twin shows to NumPy.
#pragma once

#include <pybind11/numpy.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <utility>

namespace dcgym::twin {

namespace py = pybind11;

// An array and its memory, which may be written without the interpreter lock.
template <typename Value> struct Column {
    explicit Column(std::initializer_list<size_t> shape)
        : array(make(shape)), data(array.mutable_data()) {}

    py::array_t<Value> array;
    Value *data;

  private:
    // pybind11's own constructor works out strides in vectors: half of the time of a small `read`.
    static py::array_t<Value> make(std::initializer_list<size_t> shape) {
        const auto &api = py::detail::npy_api::get();
        std::array<Py_intptr_t, 4> sizes{};
        std::copy(shape.begin(), shape.end(), sizes.begin());
        return py::reinterpret_steal<py::array_t<Value>>(api.PyArray_NewFromDescr_(
            api.PyArray_Type_, py::dtype::of<Value>().release().ptr(),
            static_cast<int>(shape.size()), sizes.data(), nullptr, nullptr, 0, nullptr));
    }
};

template <size_t n> struct Literal {
    constexpr Literal(const char (&text)[n]) { std::copy_n(text, n, value); }
    char value[n];
};

// A name as a Python string, made once: with keywords, which pybind11 makes and looks up anew, the
// dicts of a small `read` take longer than all the rest.
template <Literal text> py::handle key() {
    static PyObject *const made = PyUnicode_InternFromString(text.value);
    return made;
}

inline py::dict dict_of(std::initializer_list<std::pair<py::handle, py::handle>> values) {
    py::dict found;
    for (const auto &[name, value] : values)
        if (PyDict_SetItem(found.ptr(), name.ptr(), value.ptr()) != 0)
            throw py::error_already_set();
    return found;
}

} // namespace dcgym::twin
