"""Runs Flink SQL over CSV files; for the interpreter of Flink's own environment.

Reads a JSON object from standard input: `tables` (statements that declare the sources), `jobs`
(pairs of a name and a SELECT), `settings` and `repeats`. Says one JSON object per run of a job:
its name, the seconds from the start of the job to its end, and what failed, if anything did.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any


def main() -> None:
    """Run all jobs in one Flink, one after the other."""
    table = importlib.import_module("pyflink.table")
    settings = table.EnvironmentSettings.in_streaming_mode()
    environment = table.TableEnvironment.create(settings)
    order = json.load(sys.stdin)
    for name, value in order["settings"].items():
        environment.get_config().set(name, value)
    for statement in order["tables"]:
        environment.execute_sql(statement)
    for name, query in order["jobs"]:
        for repeat in range(order["repeats"]):
            line = {"job": name, "repeat": repeat, **_run(environment, name, query, repeat)}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


def _run(environment: Any, name: str, query: str, repeat: int) -> dict[str, Any]:
    sink = f"sink_{name}_{repeat}"
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
