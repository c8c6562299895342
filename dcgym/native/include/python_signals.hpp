// SPDX-License-Identifier: Apache-2.0
// Signals of Python in calls that do not hold the interpreter's lock.
#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <exception>

#include "interrupt.hpp"

namespace dcgym {

// Runs the handlers of signals that wait; true if one has raised, and its exception is set. Python
// runs handlers in the main thread alone, which need not wait for the lock to know that.
inline bool ask_python() {
    if (gettid() != getpid())
        return false;
    const pybind11::gil_scoped_acquire held;
    return PyErr_CheckSignals() != 0;
}

// Lets a module's functions end with the exception of the handler that ended them, or with ours.
inline void translate_ends() {
    pybind11::register_local_exception_translator([](std::exception_ptr thrown) {
        try {
            std::rethrow_exception(thrown);
        } catch (const Interrupted &) {
            // ask_python has set it.
        } catch (const Refusal &refusal) {
            const auto errors = pybind11::module_::import("dcgym.errors");
            pybind11::set_error(errors.attr("BackendError"), refusal.what());
        }
    });
}

} // namespace dcgym
