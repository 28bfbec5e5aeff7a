"""The same three jobs in every engine, over the same rows, on this machine, in one run."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from anabranch.bench.checkout import from_checkout
from anabranch.bench.peers.contestants import (
    CONTESTANTS,
    CONTROL,
    CSV,
    OWN,
    Contestant,
    csv_readers,
)
from anabranch.bench.peers.jobs import TABLES, verdict, write_inputs
from anabranch.bench.peers.process import JobProcess, JobTime, job_process
from anabranch.bench.report import Form, Report
from anabranch.bench.warming import warm_up
from anabranch.errors import PlanError, QueryError


@final
@dataclass(frozen=True, slots=True)
class PeersSize:
    """How much is measured.

    Before anything counts, an engine runs a job up to `warm_ups` times, until that is no faster
    than before. One whose first run takes more than `slow_seconds` is warm after it, and only the
    next run counts.
    """

    rows: int
    files: int
    warm_ups: int
    repeats: int
    slow_seconds: float = 60.0


SIZES: Final[Mapping[Form, PeersSize]] = {
    "full": PeersSize(rows=4_000_000, files=16, warm_ups=6, repeats=3),
    "quick": PeersSize(rows=800_000, files=8, warm_ups=1, repeats=1),
    "smoke": PeersSize(rows=4_000, files=2, warm_ups=0, repeats=1),
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PeerResult:
    """What an engine reached in a job."""

    rows_per_s: float
    cpu_per_million: float
    p99_seconds: float


def peers(report: Report, peers: Sequence[str] | None = None) -> None:
    """Measure all engines, or some of the peers.

    Figures per job: `<job>_<engine>_rows_per_s`, `<job>_<engine>_cpu_s_per_million`,
    `<job>_<engine>_peak_mb`, `<job>_<engine>_p99_s` (seconds until 99 % of the answer can be read),
    `<job>_vs_<peer>`, `<job>_cpu_vs_<peer>` and `<job>_p99_vs_<peer>` (larger is better for us);
    `<job>_<engine>_right` is 1 for a right answer, else a line says what it gave;
    `worst_vs_peers`, `worst_cpu_vs_peers`; `ahead`, the share of pairs of a job and a peer in
    which we are ahead in both; `pairs`, how many of these there are, since a peer that is missing
    or has failed is in none of them. `<job>_csv_rows_per_s` is our rate over the CSV files of the
    peers that read no Parquet, and `<job>_csv_vs_<peer>` compares it with theirs: a control, which
    is no part of the other figures.
    """
    from_checkout("peers", bench="peers")
    size = SIZES[report.form]
    wanted = (len(CONTESTANTS) - 1 if peers is None else len(set(peers))) * len(TABLES)
    report.measured("setup", form=report.form, rows=size.rows, pairs=wanted)
    chosen = list(_present(report, peers))
    if csv_readers(peers):
        # Beside our own run over Parquet.
        chosen.insert(1, CONTROL)
    root = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    try:
        folder = root / "input"
        write_inputs(folder, size.rows, size.files)
        reached: dict[tuple[str, str], PeerResult] = {}
        # Memory is that of a job where every job has processes of its own.
        together = [list(TABLES)] if report.form == "smoke" else [[job] for job in TABLES]
        for jobs in together:
            for contestant in chosen:
                for job, result in _jobs(report, contestant, jobs, folder, root / "out", size):
                    reached[job, contestant.name] = result
        _figures(report, reached)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _present(report: Report, names: Sequence[str] | None) -> Iterator[Contestant]:
    known = [each.name for each in CONTESTANTS[1:]]
    for name in names or ():
        if name not in known:
            raise QueryError(
                f"there is no peer '{name}'",
                where=f"anabranch bench peers --peers {','.join(names or ())}",
                hint=f"peers are: {', '.join(known)}",
            )
    for each in CONTESTANTS:
        if each.name != OWN and names is not None and each.name not in names:
            continue
        why = each.why_missing(install=report.form != "smoke")
        if why is None:
            yield each
        else:
            report.measured("missing", engine=each.name, why=why)


def _jobs(
    report: Report,
    contestant: Contestant,
    jobs: Sequence[str],
    folder: Path,
    root: Path,
    size: PeersSize,
) -> Iterator[tuple[str, PeerResult]]:
    """Run jobs in one process, as far as it can."""
    done = 0
    try:
        with job_process(contestant, folder) as process:
            for job in jobs:
                yield job, _job(report, contestant, process, job, folder, root, size)
                done += 1
    except PlanError as problem:
        for job in jobs[done:]:
            report.measured(job, engine=contestant.name, answer=f"none: {problem.where}")


def _job(
    report: Report,
    contestant: Contestant,
    process: JobProcess,
    job: str,
    folder: Path,
    root: Path,
    size: PeersSize,
) -> PeerResult:
    runs: list[JobTime] = []
    out = root / job / contestant.name

    def measured(**numbered: int) -> float:
        one = process.run(job, out / f"run-{len(runs)}")
        runs.append(one)
        report.measured(
            job,
            engine=contestant.name,
            **numbered,
            seconds=round(one.seconds, 3),
            cpu_seconds=round(one.cpu_seconds, 2),
            p99_seconds=round(one.p99_seconds, 3),
        )
        return 1 / one.seconds

    repeats = size.repeats
    for _ in warm_up(lambda number: measured(warm_up=number), size.warm_ups):
        if runs[0].seconds > size.slow_seconds:
            repeats = 1
            break
    warm_ups = len(runs)
    for repeat in range(repeats):
        measured(repeat=repeat)
    peak = max(process.memory, default=0)
    process.answer()
    answered = contestant.answered(job, out / f"run-{len(runs) - 1}")
    judged = verdict(job, folder, answered)
    counted = runs[warm_ups:]
    result = PeerResult(
        rows_per_s=size.rows / statistics.median(each.seconds for each in counted),
        cpu_per_million=statistics.median(each.cpu_seconds for each in counted)
        * 1_000_000
        / size.rows,
        p99_seconds=statistics.median(each.p99_seconds for each in counted),
    )
    report.measured(
        job,
        engine=contestant.name,
        answer=str(judged),
        rows_per_s=round(result.rows_per_s),
        cpu_s_per_million=round(result.cpu_per_million, 3),
        peak_mb=peak,
        p99_s=round(result.p99_seconds, 3),
    )
    report.figure(f"{job}_{contestant.name}_rows_per_s", result.rows_per_s)
    report.figure(f"{job}_{contestant.name}_cpu_s_per_million", result.cpu_per_million)
    report.figure(f"{job}_{contestant.name}_peak_mb", peak)
    report.figure(f"{job}_{contestant.name}_p99_s", result.p99_seconds)
    report.figure(f"{job}_{contestant.name}_right", float(judged.is_right))
    shutil.rmtree(out, ignore_errors=True)
    return result


def _figures(report: Report, reached: Mapping[tuple[str, str], PeerResult]) -> None:
    speeds, costs = [], []
    for (job, name), result in reached.items():
        own = reached.get((job, OWN))
        if name in (OWN, CSV) or own is None:
            continue
        speeds.append(own.rows_per_s / result.rows_per_s)
        costs.append(result.cpu_per_million / max(own.cpu_per_million, 1e-9))
        report.figure(f"{job}_vs_{name}", speeds[-1])
        report.figure(f"{job}_cpu_vs_{name}", costs[-1])
        report.figure(f"{job}_p99_vs_{name}", result.p99_seconds / max(own.p99_seconds, 1e-9))
        control = reached.get((job, CSV))
        if control is not None and name in csv_readers(None):
            report.figure(f"{job}_csv_vs_{name}", control.rows_per_s / result.rows_per_s)
    report.figure("pairs", len(speeds))
    if speeds:
        report.figure("worst_vs_peers", min(speeds))
        report.figure("worst_cpu_vs_peers", min(costs))
        both = [min(pair) > 1 for pair in zip(speeds, costs, strict=True)]
        report.figure("ahead", sum(both) / len(both))
