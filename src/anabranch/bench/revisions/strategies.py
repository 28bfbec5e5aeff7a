"""Normal rows and corrections in turn, at several rates: STP, RTP and COM of every strategy."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from anabranch.bench.revisions.lab import EVERY, Corrected, RevisionLab, Way

Spent: TypeAlias = Mapping[tuple[str, Way], Sequence[Corrected]]
"""By query and strategy, what each correction took at the highest rate."""


def strategies(lab: RevisionLab) -> Spent:
    """Measure every query in every way; what corrections took."""
    found: dict[tuple[str, Way], Sequence[Corrected]] = {}
    for query, ways in lab.size.ways.items():
        for way in ways:
            found[query, way] = _one(lab, query, way)
            shutil.rmtree(lab.root / f"{query}-{way}", ignore_errors=True)
    return found


def _one(lab: RevisionLab, query: str, way: Way) -> Sequence[Corrected]:
    corrected: list[Corrected] = []
    with lab.started(query, way) as running:
        running.stream(lab.size.chunk)  # warm-up
        for rate in lab.size.rates:
            normal: list[float] = []
            corrected = []
            for chunk in range(lab.size.chunks):
                normal.append(running.stream(lab.size.chunk))
                if chunk % EVERY[rate] == 0:
                    corrected.append(running.correct())
            stp, rtp = sum(normal), sum(each.processing for each in corrected)
            whole = [each.end_to_end for each in corrected if each.end_to_end is not None]
            lab.report.measured(
                "strategy",
                query=query,
                way=way,
                rate=rate,
                rows=lab.size.chunk * lab.size.chunks,
                revisions=len(corrected),
                stp_s=round(stp, 3),
                rtp_s=round(rtp, 4),
                com_s=round(stp + rtp, 3),
                end_to_end_ms=round(1000 * statistics.median(whole)) if whole else None,
                replayed=max((each.rows for each in corrected), default=0),
                ran=sorted({each.ran for each in corrected if each.ran}),
                normal_s=[round(each, 3) for each in normal],
                processing_ms=[round(1000 * each.processing, 1) for each in corrected],
                noticed_ms=[round(1000 * each.noticed) for each in corrected],
                all_end_to_end_ms=[round(1000 * each) for each in whole],
            )
    return corrected
