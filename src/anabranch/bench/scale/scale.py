"""More cores, more events: throughput on several masters, cost per event, memory."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final

from anabranch.bench.job_process import run_job
from anabranch.bench.report import Form, Report, speed
from anabranch.bench.rows import write_rows
from anabranch.bench.scale.model import FUTURE_CORES, BatchModel
from anabranch.bench.scale.over_time import doubling, growth

KEYS: Final = 1_000
RATE: Final = 50_000
"""Rows per second of the stream's own time, so that windows end all the while."""

SHARDS: Final = 2
"""The same on all masters: what a query has on two cores, unless somebody sets another number."""

FILES: Final = 4
"""So many files make a batch."""

HOUR: Final = 60
"""Batches of an hour, with one a minute."""

MASTERS: Final = ("local[1]", "local[2]", "local-cluster[2,1,1024]")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleSize:
    """How much is measured: batches of so many rows each, and how often throughput is.

    Batches for throughput are `times` as large: cores share the rows of a batch, not what a batch
    costs by itself. `day` is the number of small batches that stand for a day. What a shard with
    rows costs is measured with so many `shards`, of which none rests: there are many more keys.
    With `most_shards`, most have no key and rest. A stream with many `keys` has `key_batches`, and
    a group of queries has so many `queries`.
    """

    rows_per_batch: int
    times: int
    batches: int
    long_batches: int
    day: int
    repeats: int
    masters: tuple[str, ...]
    shards: int
    most_shards: int
    keys: int
    key_batches: int
    queries: int


SIZES: Final[Mapping[Form, ScaleSize]] = {
    "full": ScaleSize(
        rows_per_batch=1_000_000,
        times=4,
        batches=14,
        long_batches=100,
        day=24 * 60,
        repeats=3,
        masters=MASTERS,
        shards=128,
        most_shards=4_096,
        keys=10_000_000,
        key_batches=30,
        queries=500,
    ),
    "quick": ScaleSize(
        rows_per_batch=100_000,
        times=4,
        batches=4,
        long_batches=8,
        day=0,
        repeats=1,
        masters=MASTERS[:2],
        shards=128,
        most_shards=512,
        keys=1_000_000,
        key_batches=8,
        queries=50,
    ),
    "smoke": ScaleSize(
        rows_per_batch=1_000,
        times=1,
        batches=2,
        long_batches=5,
        day=0,
        repeats=1,
        masters=MASTERS[:2],
        shards=8,
        most_shards=16,
        keys=500,
        key_batches=5,
        queries=4,
    ),
}


def scale(report: Report) -> None:
    """A windowed count per key, batch by batch, every run in a process of its own.

    A run on one core has one: its process, Java and workers included, is kept on it. One more run
    on `local[1]`, which is not kept there, says what that does.

    Figures: `local2_over_local1` and `cluster_over_local1` (throughput), `cost_50m_over_1m` (time
    per event in the middle of a long stream over that near its beginning, without the first
    batches), `cost_100m_over_1m` (the same at its end), `peak_memory_mb` (all processes of the long
    run together) and `memory_growth` (their memory in the second half over that in the first). A
    stream with 10 million keys gives `cost_10m_keys_growth`, a group of 500 queries `group_start_s`
    and `group_batch_over_one`. A day of one small batch a minute gives `day_cost_growth`,
    `day_memory_growth` and `day_batches`, which the quick form leaves out. The model of cost has
    `floor_ms`, `row_us` and `shard_ms`, measured on one core; `predicted_local2_over_local1` is
    what it says two cores do, and `prediction_error` how far that is from what they did.
    """
    size = SIZES[report.form]
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    try:
        _write(root / "rows", size.batches * size.times, size)
        speeds = {master: _throughput(report, root, master, size) for master in size.masters}
        _not_pinned(report, root, size)
        report.figure("local2_over_local1", speeds["local[2]"] / speeds["local[1]"])
        if MASTERS[2] in speeds:
            report.figure("cluster_over_local1", speeds[MASTERS[2]] / speeds["local[1]"])
        _model(report, root, size, speeds)
        _write(root / "long", size.long_batches, size)
        _long(report, root)
        _many_keys(report, root, size)
        _group(report, root, size)
        if size.day:
            _day(report, root, size.day)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _write(folder: Path, batches: int, size: ScaleSize, keys: int = KEYS) -> None:
    """Files for so many batches; a batch has several of them, so that it can be shared."""
    write_rows(
        folder,
        files=batches * FILES,
        rows_per_file=size.rows_per_batch // FILES,
        keys=keys,
        per_second=RATE,
    )


def _throughput(report: Report, root: Path, master: str, size: ScaleSize) -> float:
    rates = []
    for repeat in range(size.repeats):
        files = FILES * size.times
        work = root / f"{len(master)}-{repeat}"
        batches, _ = _run(root / "rows", work, master, files, in_tasks=True)
        rates.append(_warm_speed(batches))
        report.measured(master, repeat=repeat, rows_per_s=round(rates[-1]), batches=batches)
    report.figure(f"{master}_rows_per_s", statistics.median(rates))
    return statistics.median(rates)


def _not_pinned(report: Report, root: Path, size: ScaleSize) -> None:
    """The rate on `local[1]` where Java's compilers and the planner may use all other cores."""
    files = FILES * size.times
    batches, _ = _run(root / "rows", root / "free", "local[1]", files, in_tasks=True, pinned=False)
    rate = round(_warm_speed(batches))
    report.measured("local[1] not pinned", rows_per_s=rate, batches=batches)


def _warm_speed(batches: Sequence[Mapping[str, float]]) -> float:
    """Rows per second, the median of the later batches.

    While Java still compiles, it competes with the tasks for the cores.
    """
    return speed(batches[len(batches) // 2 :])


def _model(report: Report, root: Path, size: ScaleSize, speeds: Mapping[str, float]) -> None:
    """The constants of the model by two sizes of batches on one core, and what they predict."""
    large = size.rows_per_batch * size.times
    few = max(1, FILES * size.times // 4)
    small, seconds = _middle(report, root / "rows", root, few, size.repeats)
    model = BatchModel.through((small, seconds), (large, large / speeds["local[1]"]))
    # As many batches as of the large ones.
    _link(root / "rows", root / "part", few * max(2, size.batches))
    _, many = _middle(report, root / "part", root, few, size.repeats, size.shards)
    model = replace(model, shard=max(0.0, (many - seconds) / (size.shards - SHARDS)))
    _, most = _middle(report, root / "part", root, few, 1, size.most_shards)
    report.measured(
        "most shards",
        shards=size.most_shards,
        batch_s=round(most, 4),
        batch_s_with_two=round(seconds, 4),
        over_two=round(most / seconds, 3),
    )
    predicted = model.speed_up(large, 2)
    measured = speeds["local[2]"] / speeds["local[1]"]
    report.measured("model", floor_s=model.floor, row_s=model.row, shard_s=model.shard)
    for cores in FUTURE_CORES:
        # Twice as many shards as cores, and batches large enough for a floor of a fifth.
        more = max(0, 2 * cores - SHARDS)
        rows = model.rows_for(cores, shards=more)
        report.measured(
            "prediction",
            cores=cores,
            shards=2 * cores,
            same_batches_rows_per_s=round(model.rows_per_second(large, cores, more)),
            rows_per_batch=rows,
            rows_per_s=rows and round(model.rows_per_second(rows, cores, more)),
        )
    report.figure("floor_ms", model.floor * 1_000)
    report.figure("row_us", model.row * 1_000_000)
    report.figure("shard_ms", model.shard * 1_000)
    report.figure("predicted_local2_over_local1", predicted)
    report.figure("prediction_error", abs(predicted / measured - 1))


def _middle(
    report: Report, rows: Path, root: Path, files: int, repeats: int, shards: int = SHARDS
) -> tuple[int, float]:
    """Rows and seconds of a batch of so many files on one core, when everything is warm."""
    seconds = []
    for repeat in range(repeats):
        work = root / f"model-{files}-{shards}-{repeat}"
        batches, _ = _run(rows, work, "local[1]", files, in_tasks=True, shards=shards)
        count = batches[-1]["rows"]
        seconds.append(count / _warm_speed(batches))
        report.measured(
            "middle", repeat=repeat, files=files, shards=shards, batch_s=round(seconds[-1], 4)
        )
    return int(count), statistics.median(seconds)


def _link(rows: Path, folder: Path, files: int) -> None:
    """A folder with the first files of another one."""
    folder.mkdir()
    for file in sorted(rows.iterdir())[:files]:
        (folder / file.name).symlink_to(file)


def _long(report: Report, root: Path) -> None:
    batches, memory = _run(root / "long", root / "long-work", "local[2]")
    each = [batch["seconds"] / batch["rows"] for batch in batches]
    report.measured(
        "long",
        events=sum(batch["rows"] for batch in batches),
        seconds_per_million=[round(seconds * 1e6, 3) for seconds in each],
        memory_mb=memory,
    )
    report.figure("cost_50m_over_1m", growth(each, until=len(each) // 2))
    report.figure("cost_100m_over_1m", growth(each))
    report.figure("peak_memory_mb", max(memory))
    report.figure("memory_growth", doubling(memory))


def _many_keys(report: Report, root: Path, size: ScaleSize) -> None:
    """A stream in which nearly every row of a window has a key of its own."""
    _write(root / "keys", size.key_batches, size, size.keys)
    batches, memory = _run(root / "keys", root / "keys-work", "local[2]")
    each = [batch["seconds"] / batch["rows"] for batch in batches]
    report.measured(
        "keys",
        keys=size.keys,
        events=sum(batch["rows"] for batch in batches),
        seconds_per_million=[round(seconds * 1e6, 3) for seconds in each],
        memory_mb=max(memory),
    )
    report.figure("cost_10m_keys_growth", growth(each))


def _group(report: Report, root: Path, size: ScaleSize) -> None:
    """Many queries over one stream as one query of Spark, beside one of them alone."""
    times = []
    for queries in (1, size.queries):
        words = (str(root / "rows"), str(root / f"group-{queries}"), str(FILES), str(queries))
        group, memory = run_job("anabranch.bench.scale.group_job", *words)
        shutil.rmtree(root / f"group-{queries}", ignore_errors=True)
        report.measured("group", queries=queries, memory_mb=max(memory), **group)
        seconds = group["batches_s"]
        times.append(statistics.median(seconds[len(seconds) // 2 :]))
    report.figure("group_start_s", group["start_s"])
    report.figure("group_batch_over_one", times[1] / times[0])


def _day(report: Report, root: Path, batches: int) -> None:
    write_rows(root / "day", files=batches, rows_per_file=2_000, keys=KEYS, per_second=1_000)
    done, memory = _run(root / "day", root / "day-work", "local[2]", files=1)
    each = [batch["seconds"] for batch in done]
    hours = [each[at : at + HOUR] for at in range(0, len(each), HOUR)]
    report.measured(
        "day",
        batches=len(done),
        ms_by_hour=[round(statistics.median(hour) * 1000) for hour in hours],
        memory_mb=memory[:: max(1, len(memory) // 48)],
    )
    report.figure("day_batches", len(done))
    report.figure("day_cost_growth", growth(each, compared=HOUR))
    report.figure("day_memory_growth", doubling(memory))


def _run(
    rows: Path,
    work: Path,
    master: str,
    files: int = FILES,
    *,
    in_tasks: bool = False,
    shards: int = SHARDS,
    pinned: bool = True,
) -> tuple[list[dict[str, float]], list[int]]:
    """The batches of a run in a process of its own, and what memory it had all the while.

    With `in_tasks` no batch runs in the driver, which has one core. A run that is `pinned` has as
    many cores as its master says.
    """
    how = ("tasks" if in_tasks else "anywhere", "pinned" if pinned else "free")
    words = (str(rows), str(work), master, str(files), str(shards), *how)
    batches, memory = run_job("anabranch.bench.scale.job", *words)
    shutil.rmtree(work, ignore_errors=True)
    return batches, memory
