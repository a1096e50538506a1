"""`python -m specviz bench class`: many visitors of one server at once.

Most are websocket clients that speak Streamlit's protocol, a few are pages of a real Chromium. Some run the
model, one run after another; the others go through recorded runs, click by click. Each live visitor's run is
made alone first: in the class it must end with the same rounds, token by token.
"""

import argparse
import asyncio
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median, quantiles
from threading import Thread
from typing import Any
from urllib.parse import urlencode

from specviz import traces
from specviz.cli import bench_pages
from specviz.cli.streamlit_client import Visitor
from specviz.recipe import Recipe, to_link

STUCK = 120.0  # seconds without a new round
STARTING = 600.0  # seconds that fetching and loading the pair may take
PROMPTS = (
    "The capital of France is",
    traces.STORY,
    "Water boils at",
    "Three colours are",
    "My favourite book",
)
MEASURED = ("token", "p", "q", "u")


@dataclass
class Live:
    """What a live visitor has seen.

    Attributes:
        recipe: of all its runs.
        solo: the rounds of that run, made alone.
        rounds: made while the class was on.
        finished: runs that ended like the solo run; `different` and `stuck` count the others.
    """

    recipe: Recipe
    solo: Any = None
    rounds: int = 0
    finished: int = 0
    different: int = 0
    stuck: int = 0
    clicks: list[float] = field(default_factory=list)


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("class")
    group.add_argument("--sessions", type=int, default=30, help="visitors in all (default: 30)")
    group.add_argument("--live", type=int, default=8, help="those that run the model (default: 8)")
    group.add_argument("--browsers", type=int, default=2, help="pages of a real Chromium (default: 2)")
    group.add_argument("--minutes", type=float, default=1.0, help="how long, from 0.1 to 60 (default: 1)")


def measure(args: argparse.Namespace) -> dict[str, str]:
    """A class: who runs gets his turn, who clicks is answered, nothing is lost, nothing grows."""
    if not 0 < args.live <= args.sessions - args.browsers or args.browsers < 0:
        raise ValueError("--live and --browsers together cannot be more than --sessions, nor --live 0")
    if not 0.1 <= args.minutes <= 60:
        raise ValueError(f"--minutes is between 0.1 and 60, not {args.minutes:g}")
    with bench_pages.server() as (url, process):
        return asyncio.run(_class(url, process, args))


async def _class(url: str, process: Any, args: argparse.Namespace) -> dict[str, str]:
    live = [
        Live(Recipe(prompt=PROMPTS[i % len(PROMPTS)], seed=100 + i, max_tokens=48, temperature=0.8))
        for i in range(args.live)
    ]
    for one in live:
        one.solo = await _alone(url, one.recipe)
    began_with = _resident(process.pid)
    seconds = 60 * args.minutes
    clicks: list[float] = []
    late: list[str] = []
    real: list[float] = []
    readers = args.sessions - args.live - args.browsers
    pages = Thread(target=_browse, args=(url, args.browsers, seconds, real), daemon=True)
    pages.start()
    until = time.monotonic() + seconds
    memory: list[int] = []
    watch = asyncio.create_task(_watch(process.pid, until, memory))
    began = time.monotonic()
    await asyncio.gather(
        *(_run(url, one, until) for one in live),
        *(_read(url, i, until, clicks, late) for i in range(readers)),
    )
    took = time.monotonic() - began
    await watch
    await asyncio.to_thread(pages.join, 60)
    return _report(live, clicks, late, real, took, [began_with, *memory], args)


async def _alone(url: str, recipe: Recipe) -> Any:
    """The rounds of a run that has the server to itself."""
    async with Visitor(url, urlencode(to_link(recipe))) as visitor:
        if not await visitor.until(lambda: "run_toggle" in visitor.seen, 60):
            raise ValueError("the app does not answer")
        await visitor.press("run_toggle")
        if not await visitor.until(lambda: _ended(visitor), STARTING):
            said = "; ".join(visitor.errors) or "no reason given"
            raise ValueError(f"the run alone did not end within {STARTING:.0f} s: {said}")
        return _decided(visitor)


async def _run(url: str, one: Live, until: float) -> None:
    """One run after another, until the time is over; the last one to its end."""
    async with Visitor(url, urlencode(to_link(one.recipe))) as visitor:
        await visitor.until(lambda: "run_toggle" in visitor.seen, 60)
        while time.monotonic() < until:
            pressed = time.monotonic()
            await visitor.press("run_toggle")
            if not await visitor.until(lambda: visitor.seen["run_toggle"].content == "Stop", STUCK):
                one.stuck += 1
                return
            one.clicks.append(time.monotonic() - pressed)
            made = 0
            while True:
                moved = await visitor.until(lambda: _ended(visitor) or _rounds(visitor) > made, STUCK)  # noqa: B023
                now = _rounds(visitor)
                one.rounds += max(0, now - made) if time.monotonic() < until else 0
                made = now
                if not moved:
                    one.stuck += 1
                    return
                if _ended(visitor):
                    break
            if _decided(visitor) == one.solo:
                one.finished += 1
            else:
                one.different += 1


async def _read(url: str, i: int, until: float, clicks: list[float], late: list[str]) -> None:
    """Go through recorded runs: a click every two seconds or so, now and then another run."""
    chance = Random(i)
    names = [recording.name for recording in traces.RECORDINGS]
    async with Visitor(url, f"run={names[i % len(names)]}&sel=1.1") as visitor:
        await visitor.until(lambda: "inspector-told" in visitor.seen, 60)
        while time.monotonic() < until:
            await asyncio.sleep(chance.uniform(1.0, 3.0))
            if chance.random() < 0.1:
                name = chance.choice(names)
                await visitor.go(f"run={name}&sel=1.1")
                # What is clicked next must be a place of that run.
                if not await visitor.until(lambda: visitor.drawn and _run_shown(visitor) == name, 30):  # noqa: B023
                    late.append(name)
                continue
            states = _payload(visitor)["rounds"]["states"]
            number = chance.randrange(len(states)) + 1
            position = chance.randrange(len(states[number - 1]) + 1) + 1
            wanted = f"Round {number} · position {position}"
            began = time.monotonic()
            await visitor.say("timeline", {"selected": {"value": [number, position], "push": _push(visitor)}})
            if await visitor.until(lambda: _shows(visitor, wanted), 30):  # noqa: B023
                clicks.append(time.monotonic() - began)
            else:
                late.append(wanted)


def _browse(url: str, pages: int, seconds: float, clicks: list[float]) -> None:
    """Real pages that click from token to token of a recorded run."""
    if not pages:
        return
    chance = Random(0)
    with bench_pages.browser() as chromium:
        opened = [chromium.new_page(viewport={"width": 1440, "height": 1000}) for _ in range(pages)]
        for page in opened:
            page.goto(f"{url}/?run=story&sel=1.1", timeout=120_000)
        for page in opened:
            page.locator(".st-key-inspector-panel h5").first.wait_for(timeout=120_000)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for page in opened:
                painted, _ = page.evaluate(bench_pages.CLICK, [chance.randrange(8), chance.randrange(3)])
                clicks.append(painted / 1000)


async def _watch(pid: int, until: float, memory: list[int]) -> None:
    while time.monotonic() < until:
        await asyncio.sleep(min(5.0, max(0.1, until - time.monotonic())))
        memory.append(_resident(pid))


def _payload(visitor: Visitor) -> dict[str, Any]:
    return json.loads(visitor.seen["timeline"].content["trace"])


def _run_shown(visitor: Visitor) -> str:
    return str(visitor.seen["timeline"].content["run"]).partition(" ")[0]


def _push(visitor: Visitor) -> int:
    version: int = visitor.seen["timeline"].content["push"]["version"]
    return version


def _rounds(visitor: Visitor) -> int:
    return len(_payload(visitor)["rounds"].get("number", ())) if "timeline" in visitor.seen else 0


def _ended(visitor: Visitor) -> bool:
    """True once the page shows a run that is over and offers another."""
    if not visitor.drawn or "timeline" not in visitor.seen or visitor.seen["run_toggle"].content != "Run":
        return False
    finish = _payload(visitor)["rounds"].get("finish", ())
    return bool(finish) and finish[-1] is not None


def _decided(visitor: Visitor) -> Any:
    """Everything that was decided in a run: tokens, their numbers, verdicts, what was committed; no times."""
    payload = _payload(visitor)
    timed = {"draftMs", "verifyMs"}
    rounds = {name: column for name, column in payload["rounds"].items() if name not in timed}
    positions = {name: payload["positions"][name] for name in MEASURED}
    return [payload["tokens"], payload["prompt"], positions, rounds]


def _shows(visitor: Visitor, heading: str) -> bool:
    told = visitor.seen.get("inspector-told")
    return told is not None and heading in json.dumps(told.content, ensure_ascii=False)


def _resident(pid: int) -> int:
    """Bytes that a process holds; 0 where the system does not say."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def _report(
    live: list[Live],
    clicks: list[float],
    late: list[str],
    real: list[float],
    took: float,
    memory: list[int],
    args: argparse.Namespace,
) -> dict[str, str]:
    rounds = [one.rounds for one in live]
    mean = sum(rounds) / len(rounds)
    spread = max(abs(n - mean) for n in rounds) / mean if mean else 0.0
    finished = sum(one.finished for one in live)
    different, stuck = sum(one.different for one in live), sum(one.stuck for one in live)
    settled = memory[1 + len(memory) // 4 :] or memory
    failed = different + stuck + len(late)
    return {
        "sessions: live, reading, in Chromium": f"{args.live}, {args.sessions - args.live - args.browsers}, "
        f"{args.browsers}",
        "minutes": f"{took / 60:.1f}",
        "click in a replay to its answer, p50 / p95": _times(clicks),
        "click in a replay to paint in Chromium, p50 / p95": _times(real),
        "click on Run to its answer, p50 / p95": _times([t for one in live for t in one.clicks]),
        "rounds a second": f"{sum(rounds) / (60 * args.minutes):.1f}",
        "rounds of a live session, least / mean / most": f"{min(rounds)} / {mean:.0f} / {max(rounds)}",
        "largest distance from an equal share": f"{spread:.0%}",
        "runs that ended like the same run alone": f"{finished} of {finished + different + stuck}",
        "runs that differ, runs stuck, clicks lost": f"{different}, {stuck}, {len(late)}",
        "memory before, after a quarter, at the end": " / ".join(
            f"{size / 2**20:,.0f} MiB" for size in (memory[0], settled[0], memory[-1])
        ),
        "verdict": "held" if not failed and finished else "FAILED",
    }


def _times(times: list[float]) -> str:
    if len(times) < 2:
        return "not measured"
    return f"{median(times) * 1000:.0f} / {quantiles(times, n=20)[-1] * 1000:.0f} ms ({len(times)} measured)"
