"""`legato worker`: a worker process of an engine, and its sessions that were set aside."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

import typer
from typer.core import TyperGroup

from legato.cli.options import TenantOption
from legato.cli.workflow_loader import load_object, load_workflow
from legato.engines.engine_urls import has_explicit_queue, open_engine
from legato.engines.model_permits import Limit
from legato.engines.model_rate_limits import ModelLimits
from legato.engines.retry_policy import RetryPolicy
from legato.engines.worker import DEFAULT_CONCURRENCY, DEFAULT_GRACE_S, Worker
from legato.errors import BadInput
from legato.stores.contract import Store
from legato.stores.memory import MemoryStore
from legato.stores.store_urls import open_store
from legato.workflow.workflow import Workflow

EngineOption = Annotated[
    str,
    typer.Option(
        help="temporal://HOST:PORT/NAMESPACE?queue=NAME, or restate://HOST:PORT?admin=http://HOST:PORT.",
        envvar="LEGATO_ENGINE",
    ),
]


class _DefaultCommandGroup(TyperGroup):
    """A group whose default command is `run`: `legato worker desk:desk` means `legato worker run desk:desk`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_DefaultCommandGroup, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})


@app.command("run")
def start_worker(
    workflows: Annotated[list[str], typer.Argument(help="Workflows to serve, each as module:name.", metavar="MODULE:WORKFLOW...")],
    engine: EngineOption = "",
    store: Annotated[
        str,
        typer.Option(
            help="The store of the sessions: postgres://..., or the path of a SQLite file, for one machine.", envvar="LEGATO_STORE"
        ),
    ] = "",
    tenant: Annotated[str, typer.Option(help="The tenant of the sessions. Its workers need a queue of their own (queue=, service=).")] = "",
    lease_seconds: Annotated[
        float | None,
        typer.Option(help="Postgres: seconds after which a silent worker loses its leases.", show_default="6"),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(help="The number of sessions to advance at the same time, for each model.", min=1)
    ] = DEFAULT_CONCURRENCY,
    grace: Annotated[float, typer.Option(help="Seconds to finish running work, after SIGTERM or Ctrl-C.", min=0)] = DEFAULT_GRACE_S,
    sweep: Annotated[float, typer.Option(help="Seconds between searches for runnable sessions that were not woken.", min=0.1)] = 15.0,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="The limit of a model, across all workers: 'openai:gpt-5.1 at_once=20 per_minute=600'. May be repeated."),
    ] = None,
    context: Annotated[
        str, typer.Option(help="A function that returns the context of a session, given its id.", metavar="MODULE:FUNCTION")
    ] = "",
    retry_failed: Annotated[str, typer.Option(help="Seconds before each retry of a session whose model failed.")] = ",".join(
        f"{each:g}" for each in RetryPolicy.failure_delays
    ),
    retry_raised: Annotated[
        str, typer.Option(help="Seconds before each retry of a session that raised an exception; then it is set aside.")
    ] = ",".join(f"{each:g}" for each in RetryPolicy.error_delays),
    errors_in_full: Annotated[
        bool, typer.Option("--errors-in-full", help="Send the engine the messages of errors, too, not only their types and places.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show warnings and errors only.")] = False,
) -> None:
    """Advance the sessions of an engine. Start any number of workers: each can continue where another stopped.

    After SIGTERM or Ctrl-C, a worker takes no new work, and finishes and records what runs; the others continue. A second signal ends it at
    once.

    \b
    legato worker desk:desk --engine temporal://127.0.0.1:7233/default --store postgres://desk@db/desk
    legato worker desk:desk billing:flow --engine restate://127.0.0.1:8080 --store desk.sqlite
    """
    for option, value in (("--engine", engine), ("--store", store)):
        if not value:
            raise BadInput(f"a worker needs {option}", do="read legato worker run --help")
    logging.basicConfig(format="%(asctime)s %(levelname)-7s %(message)s", level=logging.WARNING)
    for name in ("legato.worker", "legato.models"):
        logging.getLogger(name).setLevel(logging.WARNING if quiet else logging.INFO)
    worker_options: dict[str, Any] = {
        "concurrency": concurrency,
        "grace": grace,
        "sweep_interval": sweep,
        "retry_policy": RetryPolicy(_parse_seconds("--retry-failed", retry_failed), _parse_seconds("--retry-raised", retry_raised)),
        "limits": _parse_limits(limit),
        "context": load_object(context) if context else None,
        "report_error_text": errors_in_full,
    }
    if tenant and not has_explicit_queue(engine):
        raise BadInput(
            f"the workers of tenant {tenant!r} need a queue of their own: session ids are unique within a tenant only",
            do=f"add queue={quote(tenant, safe='')} (Temporal) or service=... (Restate) to --engine, here and where sessions are submitted",
        )
    opened_store = open_store(store, lease_seconds=lease_seconds)
    if isinstance(opened_store, MemoryStore):
        raise BadInput(
            "a worker needs a store that other processes can open, and not one in memory",
            found=f"--store {store}",
            do="name a shared store: a SQLite file on one machine, postgresql://... on several",
        )
    asyncio.run(_run_worker([load_workflow(each) for each in workflows], engine, opened_store, tenant, worker_options))


async def _run_worker(workflows: list[Workflow], engine: str, store: Store, tenant: str, worker_options: dict[str, Any]) -> None:
    try:
        async with open_engine(engine) as engine_client:
            await Worker(workflows, engine=engine_client, store=store.tenant(tenant) if tenant else store, **worker_options).run()
    finally:
        await store.close()


@app.command("dead")
def list_dead_sessions(
    engine: EngineOption = "",
    most: Annotated[int, typer.Option(help="The number of sessions to list.", min=1)] = 100,
) -> None:
    """List the sessions that were set aside because every retry raised an exception: the time, the id, and the error."""

    async def print_dead_sessions() -> None:
        async with open_engine(engine) as engine_client:
            dead_sessions = await engine_client.list_parked(most)
        for each in dead_sessions:
            since = datetime.fromtimestamp(each.parked_at / 1000).isoformat(" ", "seconds") if each.parked_at else ""
            typer.echo(f"{since:<20} {each.session}  {each.error}")
        typer.echo(f"{len(dead_sessions)} set aside" if dead_sessions else "none was set aside", err=True)

    asyncio.run(print_dead_sessions())


@app.command("wake")
def wake_sessions(
    sessions: Annotated[list[str] | None, typer.Argument(help="Sessions to advance now.")] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="All sessions whose model failed permanently, for example after a wrong API key was corrected.")
    ] = False,
    engine: EngineOption = "",
    store: Annotated[str, typer.Option(help="The store of the sessions.", envvar="LEGATO_STORE")] = "",
    tenant: TenantOption = "",
) -> None:
    """Advance sessions now. Waking an idle session is harmless."""
    if bool(sessions) == failed:
        raise BadInput("the sessions to wake are not named", expected="their ids, or --failed")

    async def wake_all() -> None:
        from legato.cli.store_locator import open_by_options
        from legato.inspection.session_browser import SessionBrowser

        async with open_by_options(store, "", tenant) as opened, open_engine(engine) as engine_client:
            ids = [(await opened.find_session(session)).id for session in sessions or ()]
            browser, after, has_more = SessionBrowser(opened.store, opened.find_session, lambda _: True), "", failed
            while has_more:
                page = await browser.page(status="failed", after=after)
                ids += [summary.id for summary in page.sessions]
                after, has_more = page.next, bool(page.next)
            for session in ids:
                await engine_client.wake(session)
                typer.echo(f"woke {session}")
        typer.echo(f"{len(ids)} woken" if ids else "none has failed", err=True)

    asyncio.run(wake_all())


@app.command("retry")
def retry(
    sessions: Annotated[list[str] | None, typer.Argument(help="Sessions that were set aside.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All sessions that were set aside.")] = False,
    engine: EngineOption = "",
) -> None:
    """Retry sessions that were set aside, after their error has been fixed."""
    if bool(sessions) == everything:
        raise BadInput("the sessions to retry are not named", expected="their ids, or --all")

    async def retry_all() -> None:
        async with open_engine(engine) as engine_client:
            set_aside = [each.session for each in await engine_client.list_parked(10_000)]
            if unknown := [session for session in sessions or () if session not in set_aside]:
                raise BadInput(
                    f"not set aside: {', '.join(unknown)}",
                    do="list them with legato worker dead; wake a failed session with legato worker wake. Nothing was retried",
                )
            for session in sessions or set_aside:
                await engine_client.retry(session)
                typer.echo(f"retried {session}")

    asyncio.run(retry_all())


def _parse_seconds(option: str, text: str) -> tuple[float, ...]:
    """Parse seconds from the command line, such as `1,4,15`."""
    try:
        return tuple(float(each) for each in text.split(",") if each.strip())
    except ValueError:
        raise BadInput(f"{option} takes seconds, separated by commas", found=repr(text), do=f"write {option} 1,4,15") from None


def _parse_limits(texts: list[str] | None) -> ModelLimits | None:
    """Parse limits from the command line, such as `openai:gpt-5.1 at_once=20 per_minute=600`."""
    limits = {}
    for text in texts or []:
        model, *parts = text.split()
        values = dict(part.partition("=")[::2] for part in parts)
        try:
            limits[model] = Limit(at_once=int(values.pop("at_once", 0)), per_minute=float(values.pop("per_minute", 0)))
        except (ValueError, BadInput):
            values = {"": text}
        if values:
            raise BadInput("--limit cannot be read", expected="'MODEL at_once=20 per_minute=600'", found=repr(text)) from None
    return ModelLimits(limits) if limits else None
