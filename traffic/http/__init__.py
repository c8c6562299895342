"""HTTP servers, requests and what became of them; see the guide "HTTP servers and clients"."""

from dcgym.traffic.http.applications import APPLICATIONS, make_requests
from dcgym.traffic.http.plan import REQUEST_DTYPE, RequestKind, RequestPlan
from dcgym.traffic.http.results import REQUEST_OUTCOMES, RESULT_DTYPE, RequestResults
from dcgym.traffic.http.servers import SERVER_DTYPE, HttpServer, ServerRows

__all__ = [
    "APPLICATIONS",
    "REQUEST_DTYPE",
    "REQUEST_OUTCOMES",
    "RESULT_DTYPE",
    "SERVER_DTYPE",
    "HttpServer",
    "RequestKind",
    "RequestPlan",
    "RequestResults",
    "ServerRows",
    "make_requests",
]
