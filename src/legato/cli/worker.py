"""`legato worker`. May know: engines. Decides: what is typed to start a worker, and what is shown while it runs."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

import typer
from typer.core import TyperGroup

from legato.cli.naming import named, workflow_named
from legato.cli.options import Tenant
from legato.engines.address import engine_at, names_a_queue
from legato.engines.limits import ModelLimits
from legato.engines.pace import Pace
from legato.engines.permits import Limit
from legato.engines.worker import AT_ONCE, GRACE, Worker
from legato.errors import BadInput
from legato.stores.contract import Store
from legato.stores.memory import MemoryStore
from legato.stores.opening import open_store
from legato.workflow.workflow import Workflow

EngineOption = Annotated[
    str,
    typer.Option(
        help="temporal://HOST:PORT/NAMESPACE?queue=NAME, or restate://HOST:PORT?admin=http://HOST:PORT.",
        envvar="LEGATO_ENGINE",
    ),
]


class _RunUnlessNamed(TyperGroup):
    """`legato worker desk:desk` is `legato worker run desk:desk`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_RunUnlessNamed, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})


@app.command("run")
def run(
    workflows: Annotated[list[str], typer.Argument(help="Workflows to serve, each as module:name.", metavar="MODULE:WORKFLOW...")],
    engine: EngineOption = "",
    store: Annotated[
        str, typer.Option(help="Where sessions live: postgres://..., or the path of a SQLite file, for one machine.", envvar="LEGATO_STORE")
    ] = "",
    tenant: Annotated[
        str, typer.Option(help="Whose sessions: those of this tenant. Its workers have a queue of their own (queue=, service=).")
    ] = "",
    lease_seconds: Annotated[
        float | None,
        typer.Option(help="Postgres: seconds after which a worker that fell silent is no longer taken for driving.", show_default="6"),
    ] = None,
    concurrency: Annotated[int, typer.Option(help="Sessions that are advanced at the same time, for each model.", min=1)] = AT_ONCE,
    grace: Annotated[float, typer.Option(help="Seconds to finish what runs, after SIGTERM or Ctrl-C.", min=0)] = GRACE,
    sweep: Annotated[float, typer.Option(help="Seconds between looks for sessions that nobody woke.", min=0.1)] = 15.0,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="For a model, across all workers: 'openai:gpt-5.1 at_once=20 per_minute=600'. May be given again."),
    ] = None,
    context: Annotated[
        str, typer.Option(help="A function that makes the caller's context from a session's id.", metavar="MODULE:FUNCTION")
    ] = "",
    retry_failed: Annotated[
        str, typer.Option(help="Seconds after which a session is tried again whose model failed, each in turn.")
    ] = ",".join(f"{each:g}" for each in Pace.failed),
    retry_raised: Annotated[
        str, typer.Option(help="Seconds after which a session is tried again that raised, each in turn; then it is set aside.")
    ] = ",".join(f"{each:g}" for each in Pace.raised),
    errors_in_full: Annotated[
        bool, typer.Option("--errors-in-full", help="Tell the engine what errors say too, not only their kind and place.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show warnings and errors only.")] = False,
) -> None:
    """Advance sessions, for an engine. Start as many as you like: any of them goes on where another stopped.

    SIGTERM or Ctrl-C: no more is taken, what runs is finished and recorded, others go on. A second one ends at once.

    \b
    legato worker desk:desk --engine temporal://127.0.0.1:7233/default --store postgres://desk@db/desk
    legato worker desk:desk billing:flow --engine restate://127.0.0.1:8080 --store desk.sqlite
    """
    for option, value in (("--engine", engine), ("--store", store)):
        if not value:
            raise BadInput(f"a worker needs {option}", do="look at legato worker run --help")
    logging.basicConfig(format="%(asctime)s %(levelname)-7s %(message)s", level=logging.WARNING)
    for name in ("legato.worker", "legato.models"):
        logging.getLogger(name).setLevel(logging.WARNING if quiet else logging.INFO)
    given: dict[str, Any] = {
        "concurrency": concurrency,
        "grace": grace,
        "sweep": sweep,
        "pace": Pace(_numbers("--retry-failed", retry_failed), _numbers("--retry-raised", retry_raised)),
        "limits": _limits(limit),
        "context": named(context) if context else None,
        "errors_in_full": errors_in_full,
    }
    if tenant and not names_a_queue(engine):
        raise BadInput(
            f"the workers of tenant {tenant!r} need a queue of their own: session ids are unique within a tenant only",
            do=f"add queue={quote(tenant, safe='')} (Temporal) or service=... (Restate) to --engine, here and where sessions are submitted",
        )
    opened = open_store(store, lease_seconds=lease_seconds)
    if isinstance(opened, MemoryStore):
        raise BadInput(
            "a worker that keeps sessions in its own memory would be the only one to know them",
            found=f"--store {store}",
            do="name a store that others share: a SQLite file on one machine, postgresql://... on many",
        )
    asyncio.run(_work([workflow_named(each) for each in workflows], engine, opened, tenant, given))


async def _work(workflows: list[Workflow], engine: str, store: Store, tenant: str, given: dict[str, Any]) -> None:
    try:
        async with engine_at(engine) as chosen:
            await Worker(workflows, engine=chosen, store=store.tenant(tenant) if tenant else store, **given).run()
    finally:
        await store.close()


@app.command("dead")
def dead(
    engine: EngineOption = "",
    most: Annotated[int, typer.Option(help="How many to show.", min=1)] = 100,
) -> None:
    """List the sessions that were set aside, because advancing them kept raising: since when, which, and why."""

    async def look() -> None:
        async with engine_at(engine) as chosen:
            found = await chosen.dead(most)
        for each in found:
            since = datetime.fromtimestamp(each.since / 1000).isoformat(" ", "seconds") if each.since else ""
            typer.echo(f"{since:<20} {each.session}  {each.error}")
        typer.echo(f"{len(found)} set aside" if found else "none was set aside", err=True)

    asyncio.run(look())


@app.command("wake")
def wake(
    sessions: Annotated[list[str] | None, typer.Argument(help="Sessions to advance now.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="All whose model failed for good: a wrong key, say, that is right now.")] = False,
    engine: EngineOption = "",
    store: Annotated[str, typer.Option(help="Where sessions live.", envvar="LEGATO_STORE")] = "",
    tenant: Tenant = "",
) -> None:
    """Have sessions advanced now. Waking one that has nothing to do is harmless."""
    if bool(sessions) == failed:
        raise BadInput("say which sessions to wake", expected="their ids, or --failed")

    async def advanced() -> None:
        from legato.cli.places import looked_into
        from legato.inspection.browsing import Browsing

        async with looked_into(store, "", tenant) as here, engine_at(engine) as chosen:
            found = [(await here.session(session)).id for session in sessions or ()]
            browsing, after, more = Browsing(here.store, here.session, lambda _: True), "", failed
            while more:
                page = await browsing.page(status="failed", after=after)
                found += [row.id for row in page.sessions]
                after, more = page.next, bool(page.next)
            for session in found:
                await chosen.wake(session)
                typer.echo(f"woke {session}")
        typer.echo(f"{len(found)} woken" if found else "none has failed", err=True)

    asyncio.run(advanced())


@app.command("retry")
def retry(
    sessions: Annotated[list[str] | None, typer.Argument(help="Sessions that were set aside.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    engine: EngineOption = "",
) -> None:
    """Take up sessions again that were set aside, when what broke them is mended."""
    if bool(sessions) == everything:
        raise BadInput("say which sessions to retry", expected="their ids, or --all")

    async def again() -> None:
        async with engine_at(engine) as chosen:
            aside = [each.session for each in await chosen.dead(10_000)]
            if unknown := [session for session in sessions or () if session not in aside]:
                raise BadInput(
                    f"not set aside: {', '.join(unknown)}",
                    do="legato worker dead lists what is; one that failed goes on with legato worker wake. Nothing was retried",
                )
            for session in sessions or aside:
                await chosen.retry(session)
                typer.echo(f"retried {session}")

    asyncio.run(again())


def _numbers(option: str, text: str) -> tuple[float, ...]:
    """Seconds as they are typed: `1,4,15`."""
    try:
        return tuple(float(each) for each in text.split(",") if each.strip())
    except ValueError:
        raise BadInput(f"{option} takes seconds, with commas between", found=repr(text), do=f"write {option} 1,4,15") from None


def _limits(texts: list[str] | None) -> ModelLimits | None:
    """Limits as they are typed: `openai:gpt-5.1 at_once=20 per_minute=600`."""
    limits = {}
    for text in texts or []:
        model, *parts = text.split()
        given = dict(part.partition("=")[::2] for part in parts)
        try:
            limits[model] = Limit(at_once=int(given.pop("at_once", 0)), per_minute=float(given.pop("per_minute", 0)))
        except (ValueError, BadInput):
            given = {"": text}
        if given:
            raise BadInput("this is no limit", expected="'MODEL at_once=20 per_minute=600'", found=repr(text)) from None
    return ModelLimits(limits) if limits else None
