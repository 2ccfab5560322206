"""The parent's handle on one submission: call its functions and read its variables as plain data.

The checks of exN/ see nothing else. Two kinds of student answer to the same three methods: `Submission`,
whose code runs in a worker behind the walls, and `KernelStudent`, the namespace of a notebook's own kernel,
for nbgrader's hidden cells. Code that ends its worker costs only the check that asked: the next question goes
to a fresh one.
"""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from autograder import protocol
from autograder.process import Died, Worker
from autograder.sandbox import Limits, Walls
from autograder.worker import describe, plain

MAX_DEADLY = 3  # cells that end the worker, after which the cells behind them are not tried


class Missed(AssertionError):
    """A wrong answer: `idea` names an entry of the exercise's ideas, the message is for the instructor."""

    def __init__(self, idea: str, detail: str = "") -> None:
        super().__init__(f"{idea}: {detail}" if detail else idea)
        self.idea = idea


class Blocked(Exception):
    """The check cannot be carried out before an earlier part gives answers; its points are pending."""

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part


class NoAnswer(Exception):
    """The student's code gave no value. `idea`: "not-written", "raised", "out of memory" or "shape".

    `where` lists the functions on the way to the error, the innermost one last.
    """

    def __init__(self, idea: str, type_name: str, message: str, where: Sequence[str]) -> None:
        super().__init__(f"{type_name}: {message}" if message else type_name)
        self.idea = idea
        self.type_name = type_name
        self.where = list(where)


class Student(Protocol):
    """What a check may do."""

    def call(self, name: str, *args: Any) -> Any:
        """Call a function of the student with plain data; returns plain data, raises NoAnswer or Died."""

    def get(self, name: str) -> Any:
        """Read a variable of the student; returns plain data, raises NoAnswer or Died."""


def unpack(reply: Mapping[str, Any]) -> Any:
    """The value of a reply, or NoAnswer."""
    if "error" not in reply:
        return reply["value"]
    error = reply["error"]
    unwritten = error["kind"] == "missing" or error["type"] == "NotImplementedError"
    idea = (
        "not-written"
        if unwritten
        else {"memory": "out of memory", "not plain": "shape"}.get(error["kind"], "raised")
    )
    raise NoAnswer(idea, error["type"], error["message"], error["where"])


# -- behind the walls ----------------------------------------------------------------------------------------


@dataclass
class CellRun:
    """What became of one cell: "ran", "raised", "out of memory", "timed out", "crashed" or "not tried"."""

    index: int
    outcome: str = "not tried"
    error: str = ""


class Submission:
    """One submission in a worker. `cells` are (index in the notebook, source)."""

    def __init__(
        self,
        cells: Sequence[tuple[int, str]],
        walls: Walls,
        limits: Limits | None = None,
        companions: Mapping[str, bytes] | None = None,
    ) -> None:
        self.walls = walls
        self.limits = limits or Limits()
        self.runs = [CellRun(index) for index, _ in cells]
        self.deaths: list[Died] = []
        self.answers = 0  # values that came back: "could any check run?"
        self.stdout = ""
        self._sources = [source for _, source in cells]
        self._companions = dict(companions or {})
        self._worker: Worker | None = None

    def load(self) -> None:
        """Start a worker and run the cells top to bottom.

        A cell that raises stops nothing. A cell that ends the worker is left out, and a fresh worker runs the
        others; after MAX_DEADLY of them the cells behind the last one are left out too.
        """
        while True:
            self._worker = Worker(self.walls, self.limits, self._companions)
            try:
                for position, run in enumerate(self.runs):
                    self._run_cell(position, run)
            except Died:
                continue
            if not self.stdout:
                self.stdout = self._worker.output["stdout"].decode(errors="replace")
            return

    def _run_cell(self, position: int, run: CellRun) -> None:
        assert self._worker
        deadly = [i for i, other in enumerate(self.runs) if other.outcome in ("timed out", "crashed")]
        if position in deadly or (len(deadly) >= MAX_DEADLY and position > deadly[-1]):
            return
        try:
            reply = self._worker.request("cell", index=run.index, source=self._sources[position])
        except Died as death:
            run.outcome, run.error = death.kind, str(death)
            self.deaths.append(death)
            self._worker = None
            raise
        run.outcome, run.error = "ran", ""
        if "error" in reply:
            run.error = reply["error"]["type"]
            run.outcome = "out of memory" if reply["error"]["kind"] == "memory" else "raised"

    def call(self, name: str, *args: Any) -> Any:
        return self._ask("call", name=name, args=list(args))

    def get(self, name: str) -> Any:
        return self._ask("get", name=name)

    def _ask(self, op: str, **fields: Any) -> Any:
        if self._worker is None:
            self.load()
        assert self._worker
        try:
            reply = self._worker.request(op, **fields)
        except Died as death:
            self.deaths.append(death)
            self._worker = None
            raise
        value = unpack(reply)
        self.answers += 1
        return value

    def close(self) -> None:
        if self._worker:
            self._worker.close()
            self._worker = None


# -- in a notebook's kernel ----------------------------------------------------------------------------------


class KernelStudent:
    """The same for code that lives in this process: nbgrader runs hidden cells in the student's kernel."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names

    def call(self, name: str, *args: Any) -> Any:
        return self._ask(name, lambda function: function(*copy.deepcopy(args)))

    def get(self, name: str) -> Any:
        return self._ask(name, lambda value: value)

    def _ask(self, name: str, use: Callable[[Any], Any]) -> Any:
        """Answer exactly as the worker and its pipe would."""
        if name not in self._names:
            raise NoAnswer("not-written", "NameError", "", [])
        try:
            body = json.dumps({"id": "kernel", "value": plain(use(self._names[name]))}).encode()
            return protocol.decode(body, "kernel")["value"]
        except protocol.Garbled as error:
            raise NoAnswer("shape", "Garbled", str(error), []) from None
        except Exception as error:
            return unpack({"error": describe(error)})
