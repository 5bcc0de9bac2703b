"""The recipes of docs/recipes.md, as processes, while nodes and they themselves are killed."""

import asyncio
import sqlite3
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from door_nodes import Doors, run
from loopback_nodes import until
from recipe_processes import RECIPES, Http, cluster, free_ports, process, soon

import causalcast

sys.path.insert(0, str(RECIPES))


def needs(*modules: str) -> None:
    """Skip without the extra `recipes`."""
    for module in modules:
        pytest.importorskip(module, reason=f"no {module}: pip install 'causalcast[recipes]'")


# FastAPI


@pytest.mark.slow
def test_workers_of_a_web_server_share_nodes(tmp_path: Path) -> None:
    needs("fastapi", "uvicorn")
    count = 60
    with cluster(tmp_path / "nodes", 2, "chat") as nodes:
        nodes.start_all()
        doors = ",".join(nodes.door_of(node) for node in nodes.ids)
        port = free_ports(1)[0]
        uvicorn = ["-m", "uvicorn", "--workers", "3", "--port", port, "--log-level", "warning"]
        with process(*uvicorn, "fastapi_chat:app", CAUSALCAST_URLS=doors):
            web = Http(port)
            web.ask("/texts")

            def say(number: int) -> dict[str, Any]:
                if number == count // 2:
                    nodes.kill(1)
                    nodes.start(1)
                return web.ask("/say", {"text": f"text {number}", "key": f"key {number}"})

            with ThreadPoolExecutor(4) as people:
                said = list(people.map(say, range(count)))
            assert len({one["worker"] for one in said}) > 1, "one worker did all"
            seen: dict[int, list[str]] = {}
            while len(seen) < 3:
                for one in said:  # whoever is asked waits until it has what somebody said
                    found = web.ask(f"/texts?after={one['id']}")
                    assert len(found["texts"]) <= count
                    seen[found["worker"]] = found["texts"]
            wanted = sorted(f"text {number}" for number in range(count))
            assert all(sorted(texts) == wanted for texts in seen.values())


# Flask and SQLite


ORDERS = 120


@pytest.mark.slow
def test_each_order_is_written_once(tmp_path: Path) -> None:
    """Two servers, one of which is killed again and again while it takes orders."""
    needs("flask")
    with cluster(tmp_path / "nodes", 2, "orders") as nodes:
        ports = free_ports(2)
        databases = [tmp_path / f"orders-{node}.sqlite" for node in (1, 2)]

        def server(node: int) -> Any:
            config = nodes.config_of(node)
            config.write_text(config.read_text().partition("[clients]")[0])
            return process("flask_orders.py", config, databases[node - 1], ports[node - 1])

        webs = [Http(port) for port in ports]
        with server(2):
            taken = 0

            def order(number: int) -> None:
                nonlocal taken
                words = {"key": f"order {number}", "pieces": 1 + number % 3}
                webs[number % 2].ask("/orders", words)
                taken += 1

            with ThreadPoolExecutor(4) as people:
                orders = people.map(order, range(ORDERS))
                for life in range(4):
                    with server(1):
                        soon(lambda: taken >= (life + 1) * ORDERS // 5, "orders")  # noqa: B023
                with server(1):
                    list(orders)
                    pieces = -sum(1 + number % 3 for number in range(ORDERS))
                    for web in webs:
                        soon(lambda: web.ask("/stock")["orders"] == ORDERS, "all orders")  # noqa: B023
                        assert web.ask("/stock") == {"orders": ORDERS, "pieces": pieces}
        for path in databases:
            keys = sqlite3.connect(path).execute("SELECT key FROM orders").fetchall()
            assert len(keys) == len({*keys}) == ORDERS


# pycrdt


def shared_document() -> Any:
    needs("pycrdt")
    import pycrdt_document

    return pycrdt_document


async def typed(document: Any, node: Any, chat: Any, words: str) -> None:
    """Words at the end of the text."""
    from pycrdt import Text

    def change(doc: Any) -> None:
        text = doc.get("text", type=Text)
        text += words

    await document.edit(chat, change)


def text_of(document: Any) -> str:
    from pycrdt import Text

    return str(document.doc.get("text", type=Text))


async def lived(
    recipe: Any, doors: Doors, path: Path, node: int, words: str, stored: int, is_new: bool = False
) -> str:
    """A life of a program: it types, ends when its text is so long, and says what it had."""
    document = recipe.SharedDocument(path, is_new)
    following = None
    try:
        async with (
            causalcast.connect(doors.url(node), position=document.position) as remote,
            remote.group("all", since="kept") as chat,
        ):
            following = asyncio.create_task(document.follow(remote, chat))
            await typed(document, remote, chat, words)
            await until(lambda: len(text_of(document)) == stored)
            await until(lambda: document.position is None or document.is_whole)
            await asyncio.sleep(0.2)  # the answers of others are stored
            following.cancel()
            return text_of(document)
    finally:
        if following is not None:
            following.cancel()
        document.close()


def test_a_document_survives_and_answers_newcomers(tmp_path: Path) -> None:
    recipe = shared_document()

    async def story() -> None:
        doors = Doors(tmp_path / "nodes", 2, door="kept_messages = 3")
        async with doors.node(1), doors.node(2) as two:
            await until(lambda: len(two.status()["links"]) == 1)
            keeper = tmp_path / "keeper.sqlite"
            for number in range(5):  # more than nodes keep
                await lived(recipe, doors, keeper, 1, f"{number}", number + 1, is_new=True)
            document = recipe.SharedDocument(keeper)
            assert text_of(document) == "01234"
            async with (
                causalcast.connect(doors.url(1), position=document.position) as remote,
                remote.group("all", since="kept") as chat,
            ):
                following = asyncio.create_task(document.follow(remote, chat))
                late = await lived(recipe, doors, tmp_path / "late.sqlite", 2, "5", 6)
                await until(lambda: text_of(document) == late)
                following.cancel()
            assert sorted(late) == list("012345")
            again = recipe.SharedDocument(tmp_path / "late.sqlite")
            assert (again.is_whole, again.is_sure) == (True, True)
            again.close()
            document.close()

    run(story())


def test_what_is_not_published_is_not_stored(tmp_path: Path) -> None:
    """The trap: who stores the document in memory comes back with edits that nobody else gets."""
    recipe = shared_document()

    class Trapped(recipe.SharedDocument):  # type: ignore[misc, name-defined]
        async def edit(self, chat: Any, change: Any) -> None:
            with self.doc.transaction():
                change(self.doc)
            self.store([self.doc.get_update()], {"seen": {}, "past": {}, "log": ""})

    class Unlucky(recipe.SharedDocument):  # type: ignore[misc, name-defined]
        async def edit(self, chat: Any, change: Any) -> None:
            with self.doc.transaction():
                change(self.doc)  # and killed before it was published

    async def came_back(kind: Any, name: str) -> str:
        doors = Doors(tmp_path / name, 1)
        async with doors.node(1):
            path = tmp_path / f"{name}.sqlite"
            document = kind(path, True)
            async with (
                causalcast.connect(doors.url(1)) as remote,
                remote.group("all", since="kept") as chat,
            ):
                await typed(document, remote, chat, "lost")
            document.close()
            after = recipe.SharedDocument(path, True)
            text = text_of(after)
            after.close()
            return text

    async def story() -> None:
        assert await came_back(Trapped, "trapped") == "lost", "it has what nobody else will get"
        assert await came_back(Unlucky, "unlucky") == ""

    run(story())


# Rolling restart


@pytest.mark.slow
def test_all_nodes_are_restarted_and_nothing_is_lost(tmp_path: Path) -> None:
    with cluster(tmp_path / "nodes", 3, "orders") as nodes:
        ports = dict(zip(nodes.ids, free_ports(3), strict=True))
        for node, port in ports.items():
            with nodes.config_of(node).open("a") as config:
                config.write(f'[metrics]\nlisten = "127.0.0.1:{port}"\n')
        nodes.start_all()
        nodes.wait_linked()
        stops = tmp_path / "stops"
        stops.mkdir()
        lives = {node: nodes.process_id(node) for node in nodes.ids}
        enough = threading.Event()

        def watch() -> None:  # what an orchestrator does
            while not enough.wait(0.05):
                for asked in list(stops.iterdir()):
                    nodes.stop(int(asked.name))
                    nodes.start(int(asked.name))
                    asked.unlink()

        orchestrator = threading.Thread(target=watch)
        orchestrator.start()
        published: list[str] = []

        def publish() -> None:
            doors = [nodes.door_of(node) for node in nodes.ids]
            with causalcast.connect_sync(doors, name="shop") as remote:
                orders = remote.group("orders")
                while not enough.wait(0.02):
                    body = f"order {len(published)}"
                    orders.publish(body.encode())
                    published.append(body)

        publisher = threading.Thread(target=publish)
        publisher.start()
        try:
            given = [f"{node}=http://127.0.0.1:{port}" for node, port in ports.items()]
            restart = f"touch {stops}/{{}}; while test -e {stops}/{{}}; do sleep 0.05; done"
            with process(
                "rolling_restart.py", "--within", 60, "--command", restart, *given
            ) as restarting:
                assert restarting.wait(180) == 0
        finally:
            enough.set()
            publisher.join()
            orchestrator.join()
        assert all(nodes.process_id(node) != before for node, before in lives.items())
        assert len(published) > 20
        for node in nodes.ids:
            with (
                causalcast.connect_sync(nodes.door_of(node), name="reader") as remote,
                remote.group("orders", since="kept") as orders,
            ):
                found: list[str] = []
                while len(found) < len(published):
                    message = orders.receive(timeout=30)
                    assert message is not None, f"node {node} lacks something"
                    found.append(message.payload.decode())
                    message.ack()
                assert found == published
