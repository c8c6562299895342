"""HTTP servers, requests and what became of them; see the guide "HTTP servers and clients"."""

from dcgym.traffic.http.applications import (
    APPLICATIONS,
    Application,
    ApplicationKind,
    Correlation,
    Stage,
    make_application,
)
from dcgym.traffic.http.files import load_requests, save_requests
from dcgym.traffic.http.plan import REQUEST_DTYPE, RequestKind, RequestPlan
from dcgym.traffic.http.requests import make_requests
from dcgym.traffic.http.resources import Resource, cpu_and_io
from dcgym.traffic.http.results import REQUEST_OUTCOMES, RESULT_DTYPE, RequestResults
from dcgym.traffic.http.servers import SERVER_DTYPE, HttpServer, ServerRows

__all__ = [
    "APPLICATIONS",
    "REQUEST_DTYPE",
    "REQUEST_OUTCOMES",
    "RESULT_DTYPE",
    "SERVER_DTYPE",
    "Application",
    "ApplicationKind",
    "Correlation",
    "HttpServer",
    "RequestKind",
    "RequestPlan",
    "RequestResults",
    "Resource",
    "ServerRows",
    "Stage",
    "cpu_and_io",
    "load_requests",
    "make_application",
    "make_requests",
    "save_requests",
]
