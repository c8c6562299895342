// SPDX-License-Identifier: Apache-2.0
// What a twin shows to NumPy.
#pragma once

#include <pybind11/numpy.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <vector>

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

// Names of columns, interned once: a dict made of keywords makes and looks up each of them anew,
// which takes as long as the columns.
class Names {
  public:
    Names(std::initializer_list<const char *> names) {
        for (const char *name : names)
            keys_.push_back(PyUnicode_InternFromString(name));
    }

    py::dict dict(std::initializer_list<py::handle> arrays) const {
        py::dict found;
        const auto *key = keys_.data();
        for (const py::handle array : arrays)
            if (PyDict_SetItem(found.ptr(), *key++, array.ptr()) != 0)
                throw py::error_already_set();
        return found;
    }

  private:
    std::vector<PyObject *> keys_; // never released
};

} // namespace dcgym::twin
