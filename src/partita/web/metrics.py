"""What does the server count? Requests, batches and what is in memory, as Prometheus reads it."""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from .limits import Application, Message, Receive, Scope, Send

CONTENT_TYPE = CONTENT_TYPE_LATEST
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The metrics of one server, in a registry of its own: one process may run several servers."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "partita_requests", "Requests by path and status", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "partita_request_seconds", "Time from a request to its answer", ["path"], registry=self.registry
        )
        self.questions = Histogram(
            "partita_batch_questions", "Questions answered together", buckets=SIZES, registry=self.registry
        )
        self.rows = Histogram("partita_batch_rows", "Inputs answered together", buckets=SIZES, registry=self.registry)
        self.waiting = Gauge("partita_waiting_questions", "Questions that wait", registry=self.registry)
        self.parts = Gauge("partita_personal_parts", "Personal parts in memory", registry=self.registry)
        self.bytes = Gauge("partita_personal_bytes", "Bytes of personal parts in memory", registry=self.registry)
        self.loads = Gauge("partita_personal_loads", "Personal parts loaded since the start", registry=self.registry)

    def batch(self, questions: int, rows: int) -> None:
        self.questions.observe(questions)
        self.rows.observe(rows)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class Counted:
    """Stands before everything else and counts what goes in and out."""

    def __init__(self, application: Application, metrics: Metrics) -> None:
        self._application, self._metrics = application, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._application(scope, receive, note)
        finally:
            # The path of the route, not of the request: names of clients would make a series each.
            path = getattr(scope.get("route"), "path", "other")
            self._metrics.requests.labels(path, str(status)).inc()
            self._metrics.seconds.labels(path).observe(time.perf_counter() - began)
