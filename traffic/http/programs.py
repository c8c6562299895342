"""Server programs in the place of the generator's servers, and how they tell their load."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from inspect import signature
from pathlib import Path

from dcgym.config import check_flag, check_in, check_int, check_keys, check_name
from dcgym.errors import BackendError, ConfigError, MissingDependency
from dcgym.registry import Registry

__all__ = [
    "PROGRAMS_FOLDER",
    "REPORTS",
    "SERVER_PROGRAMS",
    "SERVICE_NAME",
    "ServerProgram",
    "nginx",
]

PROGRAMS_FOLDER = "/run/dcgym-servers"
"""Has a folder for each server, where all hosts of the pod read it."""

REPORTS = ("connections", "nginx")
"""Where a server's load is read: the established connections of its port, or nginx' `stub_status`
at the socket ``status`` of the server's folder."""

SERVICE_NAME = "service.dcgym"
"""Name that the certificates of `nginx` are for."""

_NGINX = """
daemon off;
user root;
worker_processes <workers>;
pid <folder>/nginx.pid;
error_log <folder>/error.log;
events { worker_connections 4096; }
http {
    access_log <access_log>;
    default_type application/octet-stream;
    keepalive_requests 1000000;
    client_body_temp_path <folder>/body;
    proxy_temp_path <folder>/proxy;
    fastcgi_temp_path <folder>/fastcgi;
    uwsgi_temp_path <folder>/uwsgi;
    scgi_temp_path <folder>/scgi;
    server {
        listen <port><listen_options>;
        <certificate>
        add_header Server-Name <host>;
        location / { root <folder>; try_files /page =404; }
    }
    server {
        listen unix:<folder>/status;
        access_log off;
        location / { stub_status; }
    }
}
"""
_CERTIFICATE = "ssl_certificate certificate.pem; ssl_certificate_key key.pem;"


@dataclass(frozen=True)
class ServerProgram:
    """A program that answers at a virtual address in the place of our servers.

    In the command and in the files, ``<folder>`` stands for the server's own folder, ``<host>`` for
    its name and ``<port>`` for the port that it has to listen at, on all addresses.

    Attributes:
        command: The program and its arguments; it stays in the foreground, and its folder is the
            working one.
        files: Contents of files in its folder, by name.
        report: One of `REPORTS`.
        drain_signal: Signal that ends it once it has answered what it was asked.
        has_requests: Whether it answers the scenario's own requests, which are plain HTTP.
    """

    command: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    report: str = "connections"
    drain_signal: str = "TERM"
    has_requests: bool = True

    def __post_init__(self) -> None:
        """Check the fields."""
        words: object = self.command
        is_list = isinstance(words, list | tuple) and len(words) > 0
        if not is_list or not all(isinstance(one, str) for one in self.command):
            raise ConfigError("program.command", words, "a list of words")
        object.__setattr__(self, "command", tuple(self.command))
        for name in self.files:
            check_name("program.files", name)
        check_in("program.report", self.report, REPORTS)
        check_in("program.drain_signal", self.drain_signal, ("TERM", "QUIT", "INT"))
        check_in("program.has_requests", self.has_requests, (True, False))

    def filled(self, text: str, host: str, port: int) -> str:
        """Return a text for one server.

        Args:
            text: A word of the command, or a file.
            host: Name of the server.
            port: Port that it listens at.
        """
        values = {"folder": f"{PROGRAMS_FOLDER}/{host}", "host": host, "port": str(port)}
        for name, value in values.items():
            text = text.replace(f"<{name}>", value)
        return text

    def to_dict(self) -> dict[str, object]:
        """Return the program as plain data."""
        return asdict(self)

    @classmethod
    def read(cls, spec: object) -> ServerProgram:
        """Return the program that a configuration says.

        Args:
            spec: A name in `SERVER_PROGRAMS`; a mapping of ``name`` and the program's arguments; or
                the fields.

        Raises:
            ConfigError: There is no such program, or a field or argument is not allowed.
        """
        data = {"name": spec} if isinstance(spec, str) else spec
        if not isinstance(data, Mapping):
            allowed = "a ServerProgram, its fields, or a name with its arguments"
            raise ConfigError("server_program", spec, allowed)
        if "name" not in data:
            return cls.from_dict(data)
        chosen = {name: value for name, value in data.items() if name != "name"}
        make = SERVER_PROGRAMS.find(data["name"])
        check_keys(chosen, [*signature(make).parameters], "server_program")
        return make(**chosen)

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> ServerProgram:
        """Build a program from plain data.

        Args:
            data: The fields.

        Raises:
            ConfigError: A field is unknown or wrong.
        """
        check_keys(data, [one.name for one in fields(cls)], "program")
        # The constructor checks what the types promise.
        return cls(**{"command": (), **data})  # type: ignore[arg-type]


def nginx(
    *, tls: bool = False, page_bytes: int = 12_288, workers: int = 1, has_access_log: bool = False
) -> ServerProgram:
    """Return nginx with one page at every path, and its own report of the load.

    Args:
        tls: Answer TLS alone, with HTTP/1.1 or HTTP/2 as the client asks for (ALPN), and a new
            certificate for `SERVICE_NAME`, ``certificate.pem`` of each server's folder. The
            scenario's own requests are left out then.
        page_bytes: Size of the page.
        workers: Its processes.
        has_access_log: Keep ``access.log`` in the server's folder, which is memory.

    Raises:
        MissingDependency: openssl is not installed.
    """
    check_flag("tls", tls)
    check_flag("has_access_log", has_access_log)
    page_bytes = check_int("page_bytes", page_bytes, 1, 2**30)
    config = _NGINX.replace("<workers>", str(check_int("workers", workers, 1, 1024)))
    config = config.replace("<access_log>", "<folder>/access.log" if has_access_log else "off")
    config = config.replace("<listen_options>", " ssl http2" if tls else "")
    config = config.replace("<certificate>", _CERTIFICATE if tls else "")
    return ServerProgram(
        command=("nginx", "-p", "<folder>", "-c", "<folder>/nginx.conf"),
        files={"nginx.conf": config, "page": "d" * page_bytes, **(_certificate() if tls else {})},
        report="nginx",
        drain_signal="QUIT",
        has_requests=not tls,
    )


def _certificate() -> dict[str, str]:
    """Make a key and a certificate that signs itself, good for a month."""
    with tempfile.TemporaryDirectory() as name:
        paths = {one: Path(name, one) for one in ("key.pem", "certificate.pem")}
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"]
        command += ["ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj"]
        command += [f"/CN={SERVICE_NAME}", "-addext", f"subjectAltName=DNS:{SERVICE_NAME}"]
        command += ["-keyout", str(paths["key.pem"]), "-out", str(paths["certificate.pem"])]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise MissingDependency("openssl", "apt-get install openssl") from None
        except subprocess.CalledProcessError as error:
            raise BackendError(f"openssl: {error.stderr.strip().splitlines()[-1:]}") from error
        return {one: path.read_text("ascii") for one, path in paths.items()}


SERVER_PROGRAMS: Registry[Callable[..., ServerProgram]] = Registry(
    "server programs", "server_program"
)
"""Programs that have a name in configurations."""

SERVER_PROGRAMS.add("nginx", nginx, "one page at every path")
