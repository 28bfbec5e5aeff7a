"""Runs Flink SQL over CSV files; for the interpreter of Flink's own environment.

The first line of standard input is a JSON object with `tables` (statements that declare the
sources) and `settings`. Every further line is an object with the `name` of a job and its `query`:
it is run once, and answered by a JSON object with the `seconds` from the start of the job to its
end, or with the `problem`, if anything failed.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any


def main() -> None:
    """Run jobs in one Flink, one after the other, until there are no more."""
    table = importlib.import_module("pyflink.table")
    settings = table.EnvironmentSettings.in_streaming_mode()
    environment = table.TableEnvironment.create(settings)
    order = json.loads(sys.stdin.readline())
    for name, value in order["settings"].items():
        environment.get_config().set(name, value)
    for statement in order["tables"]:
        environment.execute_sql(statement)
    for number, line in enumerate(sys.stdin):
        job = json.loads(line)
        answer = _run(environment, f"sink_{job['name']}_{number}", job["query"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _run(environment: Any, sink: str, query: str) -> dict[str, Any]:
    try:
        view = environment.sql_query(query)
        descriptor = importlib.import_module("pyflink.table").TableDescriptor
        schema = view.get_schema().to_row_data_type()
        kind = importlib.import_module("pyflink.table").Schema
        described = kind.new_builder().from_row_data_type(schema).build()
        blackhole = descriptor.for_connector("blackhole").schema(described).build()
        environment.create_temporary_table(sink, blackhole)
        begin = time.perf_counter()
        client = view.execute_insert(sink).get_job_client()
        result = client.get_job_execution_result().result()
    except Exception as problem:  # noqa: BLE001 - whatever fails is what is reported
        return {"problem": str(problem).strip().splitlines()[0][:300]}
    wall = time.perf_counter() - begin
    return {"seconds": result.get_net_runtime() / 1000, "wall_seconds": wall}


if __name__ == "__main__":
    main()
