"""A task is ended that does one thing for too long, and no other."""

import asyncio
from collections.abc import Awaitable, Callable

from causalcast.clients.patience import Patience

Story = Callable[[Patience], Awaitable[None]]
SECONDS = 0.2


def told(story: Story) -> bool:
    """Whether it was ended."""

    async def run() -> bool:
        patience = Patience(SECONDS)
        try:
            await story(patience)
        except asyncio.CancelledError:
            assert patience.is_over
            return True
        finally:
            patience.close()
        assert not patience.is_over
        return False

    return asyncio.run(run())


def test_one_thing_that_takes_too_long() -> None:
    async def story(patience: Patience) -> None:
        patience.begin()
        patience.end()
        patience.begin()
        await asyncio.sleep(60)

    assert told(story)


def test_many_things_that_take_long_together() -> None:
    async def story(patience: Patience) -> None:
        for _ in range(8):
            patience.begin()
            await asyncio.sleep(SECONDS / 4)
            patience.end()

    assert not told(story)


def test_nothing_to_do_is_never_too_long() -> None:
    async def story(patience: Patience) -> None:
        patience.begin()
        patience.end()
        await asyncio.sleep(2 * SECONDS)
        patience.begin()  # the timer has looked meanwhile, and there is another one now
        await asyncio.sleep(60)

    began = asyncio.new_event_loop().time()
    assert told(story)
    assert asyncio.new_event_loop().time() - began >= 3 * SECONDS


def test_only_one_timer_for_any_number_of_things() -> None:
    async def story(patience: Patience) -> None:
        loop = asyncio.get_running_loop()
        asked: list[float] = []
        before = loop.call_later
        loop.call_later = lambda delay, *rest: asked.append(delay) or before(delay, *rest)  # type: ignore
        for _ in range(1000):
            patience.begin()
            patience.end()
        assert len(asked) == 1

    assert not told(story)
