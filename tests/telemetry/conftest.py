"""A fixture with the OpenTelemetry SDK, which records spans and metrics in memory."""

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from legato.telemetry import instrument


class RecordedTelemetry:
    """All recorded spans and metrics."""

    def __init__(self):
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader])

    def instrument(self, workflow, **options):
        return instrument(workflow, tracer_provider=self.tracers, meter_provider=self.meters, **options)

    @property
    def spans(self):
        return sorted(self._exporter.get_finished_spans(), key=lambda span: (span.start_time, span.context.span_id))

    def find_spans(self, name):
        return [span for span in self.spans if span.name == name]

    def find_span(self, name):
        (span,) = self.find_spans(name)
        return span

    def span_tree(self):
        """Return the names of spans as a tree, with an ! after failed ones."""
        children = {}
        for span in self.spans:
            children.setdefault(span.parent.span_id if span.parent else None, []).append(span)

        def render(span):
            children_of_span = [render(each) for each in children.get(span.context.span_id, [])]
            name = span.name + ("!" if not span.status.is_ok and span.status.status_code.name == "ERROR" else "")
            return {name: children_of_span} if children_of_span else name

        return [render(span) for span in children.get(None, [])]

    def to_text(self):
        """Return all data that would be exported."""
        return "\n".join([*(span.to_json() for span in self.spans), self._reader.get_metrics_data().to_json()])

    def metric_points(self, name):
        data = self._reader.get_metrics_data()
        metrics = [each for resource in data.resource_metrics for scope in resource.scope_metrics for each in scope.metrics]
        return [point for each in metrics if each.name == name for point in each.data.data_points]


@pytest.fixture
def telemetry():
    recorded = RecordedTelemetry()
    yield recorded
    recorded.tracers.shutdown()
    recorded.meters.shutdown()
