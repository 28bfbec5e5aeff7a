"""Options of commands that mean something only beside others: given without them, refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from typer.core import TyperCommand

from anabranch.errors import PlanError

Params = Mapping[str, Any]


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """When an option means something.

    Attributes:
        names: The parameters it is about.
        holds: Whether they mean something beside the other parameters.
        why: When they do not: "without --follow".
        hint: What to do.
    """

    names: tuple[str, ...]
    holds: Callable[[Params], bool]
    why: str
    hint: str


def only_with(flag: str, parameter: str, *names: str) -> Rule:
    """Options that go with another one."""
    return Rule(
        names,
        lambda params: bool(params[parameter]),
        f"without {flag}",
        f"leave it out, or add {flag}",
    )


def not_with(flag: str, parameter: str, *names: str) -> Rule:
    """Options that another one makes meaningless."""
    return Rule(
        names,
        lambda params: not params[parameter],
        f"with {flag}",
        f"leave it out, or {flag}",
    )


_OPTIMIZED: Final = Rule(
    ("reoptimize",),
    lambda params: params["plan"] != "as-written",
    "with --plan as-written",
    "leave it out: a plan as it was written is the only one",
)
_LOCAL: Final = "leave it out, or use --engine spark: the local engine reads the present input once"

RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "run": (
        Rule(
            (
                *("follow", "every", "changed", "checkpoint", "trigger", "shards"),
                *("metrics_port", "estimate", "reoptimize"),
            ),
            lambda params: params["engine"] != "local",
            "with --engine local",
            _LOCAL,
        ),
        _OPTIMIZED,
        not_with("--all", "every", "estimate"),
        Rule(
            ("follow",),
            lambda params: params["first"] is None and params["until"] is None,
            "with --from or --until",
            "leave it out: a backfill ends",
        ),
        only_with("--follow", "follow", "trigger"),
        only_with("--all", "every", "changed"),
    ),
    "archive": (
        only_with("--cut", "cut", "before"),
        not_with("--before", "before", "buckets", "as_json"),
    ),
    "shell": (
        Rule(
            ("allow_unbounded",),
            lambda params: params["engine"] != "local",
            "with --engine local",
            "leave it out: the local engine reads the present input once, so its state is bounded",
        ),
    ),
    "explain": (not_with("--all", "every", "as_json"),),
    "migrate": (not_with("--reoptimize", "reoptimize", "modules"),),
    "state": (not_with("--quarantine", "quarantine", "check"),),
    "top": (not_with("--once", "once", "interval"),),
    "diff": (not_with("--json", "as_json", "limit"),),
    "merge": (
        only_with("--follow", "follow", "feedback", "trigger", "checkpoint", "detach_after"),
    ),
    "control": (
        Rule(
            ("as_json",),
            lambda params: params["verb"] is None,
            "with a command",
            "leave it out, or leave out the command to list commands",
        ),
        only_with("a command", "verb", "copy"),
    ),
    "replicate": (
        Rule(
            ("copies",),
            lambda params: len(params["scripts"]) == 1,
            "with several scripts",
            "leave it out: each of several scripts runs once",
        ),
        _OPTIMIZED,
    ),
    "lmerge": (
        Rule(
            ("revisions",),
            lambda params: params["adjusts"] > 0,
            "without --adjusts",
            "set the share of adjusts with --adjusts",
        ),
    ),
}
"""The rules of a command; a command without any is not here."""


def span_or_never(text: str) -> str | None:
    """A duration of the command line, or None where it is the word `never`."""
    return None if text.strip().lower() == "never" else text


class CheckedCommand(TyperCommand):
    """A command that refuses options which mean nothing beside the others."""

    def invoke(self, ctx: Any) -> Any:
        """Check what was given, then run."""
        given = [
            parameter
            for parameter in self.params
            if getattr(ctx.get_parameter_source(parameter.name), "name", "") == "COMMANDLINE"
        ]
        for rule in RULES.get(ctx.info_name or "", ()):
            for parameter in given:
                if parameter.name in rule.names and not rule.holds(ctx.params):
                    flag = parameter.opts[0]
                    raise PlanError(
                        f"{flag} has no meaning {rule.why}",
                        where=f"option {flag}",
                        hint=rule.hint,
                    )
        return super().invoke(ctx)
