"""Build of the native parts; metadata and tool settings live in pyproject.toml.

Ten artefacts go into ``dcgym/native``: six C++ modules, the BPF objects and three
programs. Each is optional: what cannot be built is named in a warning and the install goes on.
"""

from __future__ import annotations

import functools
import os
import runpy
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
NATIVE = Path("dcgym/native")
# For `make sanitize`: what of the compiler's sanitizers the C++ parts carry.
SANITIZERS = os.environ.get("DCGYM_SANITIZE", "")
SANITIZE = (
    [f"-fsanitize={SANITIZERS}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1"]
    if SANITIZERS
    else []
)
PACKETS, WORKLOAD = "twin/packets", "twin/workload"
# Of these modules the sources in some folders are one translation unit. In the packet twin, what
# they call of each other for every packet costs a tenth of the time where the compiler cannot put
# it in place. What another module compiles too, at the same time, needs an object of its own.
CORE = NATIVE / "twin/core"
JOINED = {"_packets": (NATIVE / PACKETS, CORE), "_workload": (CORE,)}
# Clones of a machine share what it compiled: paths in a clone count from its root.
CACHE = shutil.which("ccache")
os.environ.setdefault("CCACHE_BASEDIR", str(ROOT.resolve()))
os.environ.setdefault("CCACHE_NOHASHDIR", "true")
DIGESTS = runpy.run_path(str(ROOT / NATIVE / "digest.py"))
COMPILERS = runpy.run_path(str(ROOT / NATIVE / "compilers.py"))
TABLES = runpy.run_path(str(ROOT / NATIVE / "tables.py"))
# Fused operations would make results differ by machine.
TWIN_FLAGS = ("-O3", "-ffp-contract=off", "-fvisibility=hidden")


def sources(pattern: str, without: Sequence[str] = ()) -> list[str]:
    """List source files relative to the root, as setuptools wants them."""
    found = [p.relative_to(ROOT) for p in sorted((ROOT / NATIVE).glob(pattern))]
    return [str(p) for p in found if not any(p.is_relative_to(NATIVE / one) for one in without)]


def with_headers(files: Sequence[str], folder: str) -> list[str]:
    """Add the headers of ours that sources of a folder include."""
    found = DIGESTS["with_headers"](NATIVE, [Path(name) for name in files], folder)
    return [str(path) for path in found]


def header_controls() -> list[str]:
    """Return the congestion controls that are one header each, by their names in C."""
    rows = TABLES["read_table"]("congestion_controls")
    return [row["symbol"] for row in rows if row["program"] == "HEADER"]


def write_control(folder: Path, name: str) -> str:
    """Write the unit of one of `header_controls` as the packet twin has it; return its path.

    Args:
        folder: Where to write it.
        name: Its name in C.
    """
    text = f'#define DCGYM_CONTROL {name}\n#define DCGYM_CONTROL_HEADER "{name}.h"\n'
    text += '#include "congestion/header_control.hpp"\n'
    return write_text(folder / f"header_control_{name}.cpp", text)


def write_unit(unit: Path, files: Sequence[str]) -> str:
    """Write a translation unit that is made of sources, and return its name.

    What a header library lets each source compile anew, pybind11 or Asio, takes longer than the
    sources themselves. Sources of a unit share their unnamed namespaces.

    Args:
        unit: Where to write it.
        files: Names of the sources, relative to the root.
    """
    paths = [os.path.relpath(ROOT / name, unit.parent) for name in files]
    return write_text(unit, "".join(f'#include "{path}"\n' for path in paths))


def write_text(unit: Path, text: str) -> str:
    """Write a translation unit where it differs from the one that is there; return its name."""
    # Its time stays where nothing changes, or it would be compiled each time.
    if not unit.exists() or unit.read_text(encoding="utf-8") != text:
        unit.parent.mkdir(parents=True, exist_ok=True)
        unit.write_text(text, encoding="utf-8")
    return str(unit)


def extensions() -> list[Extension]:
    """Describe the C++ modules; an empty list where pybind11 is missing."""
    try:
        import pybind11
    except ImportError:
        print("warning: pybind11 is missing: the native modules are not built")
        return []
    return [
        extension("_native", "kernel", pybind11.get_include(), libraries=["bpf", "mnl"]),
        # The twins need a C++20 compiler alone.
        extension(
            "_simulation",
            "twin",
            pybind11.get_include(),
            without=(PACKETS, WORKLOAD),
            define_macros=[("DCGYM_RULE_SERVERS", "1024")],
            flags=TWIN_FLAGS,
        ),
        extension(
            "_packets",
            PACKETS,
            pybind11.get_include(),
            also="twin/core/random.cpp",
            include_dirs=[str(NATIVE / "twin")],
            flags=TWIN_FLAGS,
        ),
        extension(
            "_workload",
            WORKLOAD,
            pybind11.get_include(),
            also="twin/core/*.cpp",
            include_dirs=[str(NATIVE / "twin")],
            flags=TWIN_FLAGS,
        ),
        extension("_measure", "measure", pybind11.get_include(), flags=TWIN_FLAGS),
        extension("_placement", "placement", pybind11.get_include(), flags=TWIN_FLAGS),
    ]


def extension(
    name: str,
    folder: str,
    pybind: str,
    flags: Sequence[str] = ("-O2",),
    without: Sequence[str] = (),
    also: str = "",
    include_dirs: Sequence[str] = (),
    **options: Any,
) -> Extension:
    """Describe the C++ module made of all sources below one folder, but for some inside it.

    Args:
        name: Of the module.
        folder: In the folder of native sources.
        pybind: Folder of pybind11's headers.
        flags: For the compiler.
        without: Folders inside it that belong to other modules.
        also: Sources of another folder.
        include_dirs: Where headers are looked for besides.
        options: Of `setuptools.Extension`.
    """
    files = sources(f"{folder}/**/*.cpp", without) + (sources(also) if also else [])
    return Extension(
        f"dcgym.native.{name}",
        files,
        include_dirs=[str(NATIVE / "include"), str(NATIVE / folder), *include_dirs, pybind],
        extra_compile_args=["-std=c++20", *flags, "-g0", "-Wall", "-Wextra", "-pthread", *SANITIZE],
        extra_link_args=["-pthread", *SANITIZE],
        depends=with_headers(files, folder),
        language="c++",
        optional=True,
        **options,
    )


def outdated(target: Path, inputs: Sequence[str]) -> bool:
    """Tell whether the target is missing or older than any input."""
    if not target.exists():
        return True
    built = target.stat().st_mtime
    return any(
        Path(name).stat().st_mtime > built for name in [*inputs, __file__, COMPILERS["__file__"]]
    )


def compile_file(command: list[str], target: Path) -> None:
    """Run one compiler and put its output in place in one step."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".tmp")
    print(" ".join([*command, "-o", str(target)]))
    subprocess.run([*command, "-o", str(partial)], check=True)
    partial.replace(target)


def generator_units(built: Path) -> dict[str, list[str]]:
    """Return the units of the generator, and the sources of each."""
    http = sources("generator/http/*.cpp")
    apart = [name for name in sources("generator/flows/*.cpp") if "tcp_info" in name]
    rest = [name for name in sources("generator/**/*.cpp") if name not in {*http, *apart}]
    units = {"http_unit.cpp": http, "flows_unit.cpp": rest}
    inputs = {write_unit(built / name, files): files for name, files in units.items() if files}
    return inputs | {name: [name] for name in apart}


def single_units(folder: str) -> dict[str, list[str]]:
    """Return each source of a folder as a unit of its own."""
    return {name: [name] for name in sources(f"{folder}/**/*.cpp")}


def cached(command: Sequence[str]) -> list[str]:
    """Put the compiler's cache, if there is one, before a command that does not begin with it."""
    return [CACHE, *command] if CACHE and Path(command[0]).name != "ccache" else [*command]


class BuildNative(build_ext):
    """Build the C++ modules, then the BPF objects and the programs beside it."""

    def run(self) -> None:
        """Build everything; a part that fails is reported, not fatal."""
        # The Makefile builds beside pip, which takes as long and uses the other resources.
        if os.environ.get("DCGYM_SKIP_BUILD"):
            return
        self._attempt("a native module", "g++ libbpf-dev libmnl-dev", super().run)
        self._attempt("the BPF objects", "clang llvm libbpf-dev linux-libc-dev", self._build_bpf)
        # A static program starts sooner, and reads no libraries that would count as its command's.
        host = ("-lseccomp", *([] if SANITIZERS else ["-static"]))
        for what, packages, folder, libraries in (
            ("the traffic generator", "g++ libasio-dev libboost-dev", "generator", ()),
            ("the relay", "g++", "relay", ()),
            ("the namespaces of hosts", "g++ libseccomp-dev", "host", host),
        ):
            build = functools.partial(self._build_program, folder, libraries)
            self._attempt(what, packages, build)

    def _attempt(self, what: str, packages: str, build: Callable[[], None]) -> None:
        try:
            build()
        except Exception as error:
            # DCGYM_STRICT_BUILD is for developers and CI, who want the failure itself.
            if os.environ.get("DCGYM_STRICT_BUILD"):
                raise
            print(f"warning: {what} was not built ({error}); apt-get install {packages}")

    def build_extensions(self) -> None:
        """Build the modules, through the compiler's cache where there is one."""
        for name in ("compiler_so", "compiler_so_cxx"):
            self.compiler.set_executable(name, cached(getattr(self.compiler, name)))
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        """Build a module, and note beside it what it was built from."""
        name = ext.name.rpartition(".")[2]
        bindings = [each for each in ext.sources if "py::" in (ROOT / each).read_text("utf-8")]
        unit = write_unit(Path(self.build_temp) / NATIVE / f"{name}_bindings.cpp", bindings)
        others = [each for each in ext.sources if each not in bindings]
        joined = [each for each in others if Path(each).parent in JOINED.get(name, ())]
        units = [unit]
        if joined:
            units.append(write_unit(Path(self.build_temp) / NATIVE / f"{name}_core.cpp", joined))
        if name == "_packets":
            folder = Path(self.build_temp) / NATIVE
            units += [write_control(folder, control) for control in header_controls()]
            headers = [str(NATIVE / "include" / f"{one}.h") for one in header_controls()]
            ext.depends = [*ext.depends, *with_headers(headers, PACKETS)]
        ext.sources = [*units, *(each for each in others if each not in joined)]
        ext.depends = [*ext.depends, *bindings, *joined]
        super().build_extension(ext)
        folder = Path(self.get_ext_fullpath(ext.name)).parent
        digest = DIGESTS["interface_digest"](ROOT / NATIVE, name)
        DIGESTS["digest_path"](folder, name).write_text(digest)

    def copy_extensions_to_source(self) -> None:
        """Put the modules, and what they were built from, into the checkout."""
        super().copy_extensions_to_source()
        for path in (Path(self.build_lib) / NATIVE).glob("*.digest"):
            shutil.copy(path, ROOT / NATIVE / path.name)

    def _output(self) -> Path:
        in_place = self.inplace or getattr(self, "editable_mode", False)
        return ROOT / NATIVE if in_place else Path(self.build_lib) / NATIVE

    def _compile_all(self, commands: Sequence[tuple[list[str], Path]]) -> None:
        with ThreadPoolExecutor(int(self.parallel or 1)) as pool:
            list(pool.map(lambda each: compile_file(*each), commands))

    def _build_bpf(self) -> None:
        control = str(NATIVE / "bpf/transport/window_control.bpf.c")
        own = [name for name in sources("bpf/**/*.bpf.c") if name != control]
        if shutil.which("clang") is None:
            raise RuntimeError("clang is missing")
        objects = [(Path(name).name.removesuffix(".bpf.c"), name, [name], []) for name in own]
        for name in header_controls():
            header = Path(f"{name}.h")
            inputs = [control, str(NATIVE / "include" / header)]
            objects.append((name, control, inputs, COMPILERS["control_defines"](name, header)))
        commands = []
        for name, source, inputs, defines in objects:
            target = self._output() / "obj" / f"{name}.bpf.o"
            if self.force or outdated(target, with_headers(inputs, "bpf")):
                command = COMPILERS["bpf_command"](NATIVE, Path(source), defines)
                commands.append((cached(command), target))
        self._compile_all(commands)

    def _build_program(self, folder: str, libraries: Sequence[str] = ()) -> None:
        # It may have a word before it, such as ccache.
        compiler = shlex.split(os.environ.get("CXX", "g++"))
        options = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-pthread", *SANITIZE]
        # Asio looks for it before any header of the library says that it is there, or after:
        # one file would free by one function what another took by the other.
        options += ["-DASIO_DISABLE_STD_ALIGNED_ALLOC"]
        options += [f"-I{NATIVE / 'include'}", f"-I{NATIVE / folder}"]
        built = Path(self.build_temp) / NATIVE / folder
        inputs = generator_units(built) if folder == "generator" else single_units(folder)
        objects = [built / Path(name).with_suffix(".o").name for name in inputs]
        self._compile_all(
            [
                (cached([*compiler, *options, "-c", name]), target)
                for (name, files), target in zip(inputs.items(), objects, strict=True)
                if self.force or outdated(target, [name, *with_headers(files, folder)])
            ]
        )
        target = self._output() / "bin" / f"dcgym-{folder}"
        files = [str(path) for path in objects]
        if files and outdated(target, files):
            compile_file([*compiler, *options, *files, *libraries], target)


setup(
    packages=find_packages(include=["dcgym", "dcgym.*"]),
    package_data={
        "dcgym": ["py.typed"],
        "dcgym.policies": ["learned/trained/*/*"],
        "dcgym.native": [
            "*.pyi",
            *("obj/*.bpf.o", "bin/dcgym-*", "include/**/*.h*", "bpf/**/*.[ch]"),
            # The sources tell a module that was built from others (digest.py).
            *(f"{folder}/**/*.?pp" for folder in ("kernel", "twin", "measure", "placement")),
            "twin/**/*.c",
        ],
    },
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildNative},
)
