"""Which behaviour a request gets: its own header, else the first rule that fits, else the default."""

import asyncio
import dataclasses

from .behaviour import Behaviour, parse, parse_text

HEADER = "x-upstream"


@dataclasses.dataclass
class Rule:
    key: str | None
    path: str | None
    steps: list[Behaviour]
    repeat: bool  # The last step goes on for ever; else the rule is used up after it.

    def fits(self, key: str | None, path: str) -> bool:
        return bool(self.steps) and self.key in (None, key) and self.path in (None, path)

    def take(self) -> Behaviour:
        return self.steps[0] if self.repeat and len(self.steps) == 1 else self.steps.pop(0)


class Scripts:
    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self._released: dict[str, asyncio.Event] = {}
        self._held: dict[str, int] = {}

    def choose(self, key: str | None, path: str, header: str | None) -> Behaviour:
        if header is not None:
            return parse_text(header)
        for rule in self._rules:
            if rule.fits(key, path):
                return rule.take()
        return Behaviour()

    def add(self, rule: dict) -> None:
        steps = [parse(step) for step in rule["steps"]]
        self._rules.append(Rule(rule.get("key"), rule.get("path"), steps, rule.get("repeat", False)))

    def clear(self) -> None:
        self._rules.clear()

    def release(self, name: str) -> None:
        """Lets go whoever waits for the name now. Later requests wait anew."""
        self._released.pop(name, asyncio.Event()).set()

    def held(self) -> dict[str, int]:
        return {name: count for name, count in self._held.items() if count}

    async def hold(self, name: str) -> None:
        event = self._released.setdefault(name, asyncio.Event())
        self._held[name] = self._held.get(name, 0) + 1
        try:
            await event.wait()
        finally:
            self._held[name] -= 1
