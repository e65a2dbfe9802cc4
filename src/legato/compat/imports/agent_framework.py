"""Reader of Microsoft Agent Framework's checkpoints.

A checkpoint keeps the conversation once for every agent, and in most releases several times for each: what an agent was given goes into
its history again with every run. What is a copy is told by where it stands and by the ids that the framework gave, never by its words:

- everything in an agent's input up to the last message that the agent's history had already is a replay;
- what another agent said is taken from the longest conversation, what an agent called and was answered only from its own.

Releases since 1.0.0rc1 pickle some of it. A pickle is a program, and is not run: what is kept nowhere else is told as left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from legato.compat.imports.conversation import AgentReply, Entry, Report, ToolOutput, UserMessage
from legato.compat.imports.untrusted_input import MessageParts, check_dict, check_list, check_text, import_refusal, read_json, text_or_json
from legato.core.facts import Call, Content, OutputText, ReplyItem
from legato.errors import CannotImport

HANDOFF = "handoff_to_"
ORCHESTRATOR = "handoff-coordinator"


class StoredMessage(Struct):
    """One message of a checkpoint."""

    role: str
    author: str
    id: str
    contents: list[dict[str, Any]]
    where: str

    @property
    def key(self) -> tuple[str, ...]:
        """The identity of its copies: the id, or those of its calls and outputs; empty for most messages of users."""
        ids = tuple(str(content.get("call_id")) for content in self.contents if content.get("type") in ("function_call", "function_result"))
        return (self.role, self.id) if self.id else (self.role, *ids) if ids else ()

    @property
    def is_dialogue(self) -> bool:
        """True if every agent received the message: text, not calls and outputs alone."""
        return self.role == "user" or (self.role == "assistant" and any(content.get("type") not in _TRAFFIC for content in self.contents))


_TRAFFIC = ("function_call", "function_result", "function_approval_request", "function_approval_response", "text_reasoning", "usage")


def checkpoint_entries(text: str | bytes, report: Report) -> tuple[list[Entry], dict[str, bytes]]:
    """Return the conversation in a checkpoint."""
    body, state = _read_checkpoint(text)
    report.source = f"checkpoint {check_text(body['checkpoint_id'], 'the checkpoint_id')}"
    executors = check_dict(state.get("_executor_state") or {}, "the executors")
    pickles = Pickles(report)
    histories = {name: history for name, kept in executors.items() if (history := _history(name, kept, pickles))}
    pickles.find("messages", body.get("messages"))
    pickles.find("pending_request_info_events", body.get("pending_request_info_events"))
    pickles.done()
    if body.get("messages"):
        report.notes.append("the checkpoint was written between two steps; what was on its way between agents is not in it")
    kept = _messages(
        check_dict(executors.get(ORCHESTRATOR) or {}, ORCHESTRATOR).get("conversation") or [], f"{ORCHESTRATOR}.conversation", pickles
    )
    agents = _agents(histories, kept)
    spoken = [message for message in kept if message.is_dialogue] or max((own.dialogue for own in agents), key=len, default=[])
    if not spoken:
        raise _nothing_spoken(pickles)
    merged = list(_merged(spoken, agents, report))
    report.copies = sum(own.copies for own in agents)
    reader = Reader(report)
    return list(reader.entries(merged)), reader.contents


def _read_checkpoint(text: str | bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """A checkpoint, and the state in it."""
    body = read_json(text, "the checkpoint")
    version, state = body.get("version"), body.get("state", body.get("shared_state"))
    if "checkpoint_id" not in body or not isinstance(state, dict):
        raise import_refusal(
            "this is no checkpoint of Agent Framework",
            expected="an object with checkpoint_id and state",
            found=", ".join(map(str, body))[:80],
        )
    if version != "1.0":
        raise import_refusal("this checkpoint has a version that is not known", expected="1.0", found=repr(version))
    return body, state


def _agents(histories: dict[str, list[StoredMessage]], kept: list[StoredMessage]) -> list[AgentHistory]:
    """Return each agent's history. If the provider holds it, the orchestrator's `kept` messages have the latest calls."""
    speakers = dict.fromkeys(message.author for message in kept if message.role == "assistant" and message.author)
    return [
        AgentHistory(name, history) for name, history in (histories | {name: kept for name in speakers if name not in histories}).items()
    ]


def _nothing_spoken(pickles: Pickles) -> CannotImport:
    if not pickles.number:
        return import_refusal("nobody has said anything in this checkpoint yet", do="take a later one")
    do = (
        "where the framework is, write its messages as JSON, [message.to_dict(), ...], and import that file: docs/migrate/index.md"
        "#the-conversations has the three lines that do it"
    )
    return import_refusal(
        "nothing of this checkpoint's conversation can be read without running pickles", found=f"{pickles.number} pickled values", do=do
    )


def read_messages(text: str | bytes, report: Report) -> tuple[list[Entry], dict[str, bytes]]:
    """Return the conversation in a list of messages (`Message.to_dict()`, in JSON), each message once."""
    body = read_json(b'{"messages":' + (text.encode("utf-8", "replace") if isinstance(text, str) else text) + b"}", "the list of messages")
    report.source = "messages"
    pickles = Pickles(report)
    told = _messages(body["messages"], "messages", pickles)
    if pickles.number:
        raise import_refusal("a message is pickled", do="write messages with to_dict()")
    reader = Reader(report)
    return list(reader.entries(told)), reader.contents


class Pickles:
    """The pickled values of a checkpoint: counted by place, never loaded."""

    def __init__(self, report: Report) -> None:
        self.number = 0
        self._report = report
        self._places: dict[str, int] = {}

    def is_one(self, value: object, where: str) -> bool:
        """Return True if this value is a pickle, and count it."""
        if not isinstance(value, dict) or not ("__pickled__" in value or "__af_pickled__" in value):
            return False
        self.number += 1
        self._places[where] = self._places.get(where, 0) + 1
        return True

    def find(self, where: str, value: object) -> None:
        """Count those in there."""
        waiting = [value]
        while waiting:
            found = waiting.pop()
            if not self.is_one(found, where):
                waiting += found.values() if isinstance(found, dict) else found if isinstance(found, list) else []

    def done(self) -> None:
        """Say what was left out."""
        self._report.left_out += [
            f"{number} pickled values of {where}; nothing is unpickled" for where, number in sorted(self._places.items())
        ]


def _unwrapped(value: Any) -> Any:
    """A value without what says of which class it was."""
    while isinstance(value, dict) and "value" in value and ("__af_model__" in value or "__af_dataclass__" in value):
        value = value["value"]
    return value


def _history(name: str, kept: object, pickles: Pickles) -> list[StoredMessage]:
    """The longest list of messages that an executor keeps in JSON."""
    kept = check_dict(kept, f"executor {name}")
    lists: dict[str, object] = {where: kept[where] for where in ("cache", "full_conversation") if where in kept}
    if isinstance(thread := _unwrapped(kept.get("agent_thread")), dict) and isinstance(thread.get("chat_message_store_state"), dict):
        lists["agent_thread"] = thread["chat_message_store_state"].get("messages")
    if isinstance(session := _unwrapped(kept.get("agent_session")), dict) and isinstance(session.get("state"), dict):
        lists |= {
            f"agent_session.{key}": held["messages"]
            for key, held in session["state"].items()
            if isinstance(held, dict) and "messages" in held
        }
    pickles.find(f"{name}.pending_agent_requests", kept.get("pending_agent_requests"))
    found = [_messages(given or [], f"{name}.{where}", pickles) for where, given in lists.items()]
    return max(found, key=len, default=[])


def _messages(given: object, where: str, pickles: Pickles) -> list[StoredMessage]:
    told: list[StoredMessage] = []
    if pickles.is_one(given, where):
        return told
    for number, message in enumerate(check_list(given, where)):
        if pickles.is_one(message, where):
            continue
        place = f"{where}[{number}]"
        message = check_dict(_unwrapped(message), place)
        role = _unwrapped(message.get("role"))
        role = check_text(role.get("value") if isinstance(role, dict) else role, f"the role of {place}")
        contents = [
            check_dict(_unwrapped(content), place) for content in check_list(message.get("contents") or [], f"the contents of {place}")
        ]
        author, id = (check_text(message.get(name) or "", f"the {name} of {place}") for name in ("author_name", "message_id"))
        told.append(StoredMessage(role, author, id, contents, place))
    return told


# -- copies ------------------------------------------------------------------------------------------------------------------


class AgentHistory:
    """An agent's history, without what was put into it again: the conversation as the agent knew it."""

    def __init__(self, name: str, history: list[StoredMessage]) -> None:
        self.name = name
        self.copies = 0
        self.conversation: list[StoredMessage] = []
        self.dialogue: list[StoredMessage] = []
        """What every agent was told."""
        known: set[tuple[str, ...]] = set()
        given: list[StoredMessage] = []
        for told in history:
            if self.owns(told) and told.key not in known:
                self._hear(given, known)
                given = []
                self._keep([replace(told, author=name)])
                known.add(told.key)
            else:
                given.append(told)
        self._hear(given, known)

    def owns(self, told: StoredMessage) -> bool:
        """Return True if the agent itself wrote the message, made the call or received the output."""
        return told.role in ("assistant", "tool") and told.author in ("", self.name)

    def blocks(self) -> list[list[StoredMessage]]:
        """Return the agent's calls and outputs: before each part of its dialogue, and after the last."""
        blocks: list[list[StoredMessage]] = [[]]
        for told in self.conversation:
            if told.is_dialogue:
                blocks.append([])
            elif self.owns(told):
                blocks[-1].append(told)
        return blocks

    def _hear(self, given: list[StoredMessage], known: set[tuple[str, ...]]) -> None:
        """The input of one run: what is new in it."""
        last = max((place for place, told in enumerate(given) if told.key and told.key in known), default=-1)
        before, now = self.dialogue, [told for told in given if told.is_dialogue]
        if last < 0 and before and len(now) > len(before) and all(_may_be_same(a, b) for a, b in zip(before, now, strict=False)):
            last = given.index(now[len(before) - 1])  # none of it has an id, and it begins as the conversation did
        self.copies += last + 1
        self._keep(given[last + 1 :])
        known |= {told.key for told in given[last + 1 :] if told.key}

    def _keep(self, new: list[StoredMessage]) -> None:
        self.conversation += new
        self.dialogue += [told for told in new if told.is_dialogue]


def _may_be_same(one: StoredMessage, other: StoredMessage, copied: bool = False) -> bool:
    """As far as roles, authors and ids tell. `copied`: what other agents are told of a reply with calls is its words, without its id."""
    return one.role == other.role and one.author == other.author and (one.id == other.id or (copied and not (one.id and other.id)))


def _merged(spoken: list[StoredMessage], agents: list[AgentHistory], report: Report) -> Iterator[StoredMessage]:
    """The dialogue, with every agent's own calls and outputs where they were made."""
    between: dict[int, list[list[StoredMessage]]] = {}
    own: dict[int, StoredMessage] = {}
    for agent in agents:
        for place, block in enumerate(agent.blocks()):
            if block:
                between.setdefault(place, []).append(block)
        if all(_may_be_same(one, other, copied=True) for one, other in zip(agent.dialogue, spoken, strict=False)):
            own |= {place: told for place, told in enumerate(agent.dialogue[: len(spoken)]) if agent.owns(told)}
        else:
            report.notes.append(f"what {agent.name} remembers is not how the conversation went; its calls stand by their number")
    speaker = ""
    for place, told in enumerate(spoken):
        yield from _in_turn(between.pop(place, []), speaker)
        yield own.get(place, told)
        speaker = told.author
    yield from _in_turn(between.pop(len(spoken), []), speaker)
    for place in sorted(between):
        yield from _in_turn(between[place], "")


def _in_turn(blocks: list[list[StoredMessage]], speaker: str) -> Iterator[StoredMessage]:
    """Blocks of several agents at one place: each after the one that handed over to it."""

    def targets(block: list[StoredMessage]) -> set[str]:
        return {str(content.get("name"))[len(HANDOFF) :] for told in block for content in told.contents if _is_handoff(content)}

    def whose(block: list[StoredMessage]) -> str:
        return next((told.author for told in block if told.author), "")

    while blocks:
        handed = set().union(*(targets(block) for block in blocks))
        first = next(
            (block for block in blocks if whose(block) == speaker),
            next((block for block in blocks if whose(block) not in handed), blocks[0]),
        )
        blocks.remove(first)
        yield from first
        speaker = next(iter(targets(first)), speaker)


def _is_handoff(content: dict[str, Any]) -> bool:
    return content.get("type") == "function_call" and str(content.get("name")).startswith(HANDOFF)


# -- what messages are made of -----------------------------------------------------------------------------------------------


class Reader:
    """Messages as entries."""

    def __init__(self, report: Report) -> None:
        self.contents: dict[str, bytes] = {}
        self._report = report
        self._left: dict[str, int] = {}

    def entries(self, told: Iterable[StoredMessage]) -> Iterator[Entry]:
        """All of them."""
        speaker = ""
        for message in told:
            if message.role == "user":
                if content := self._content(message):
                    yield UserMessage(content, message.author)
            elif message.role == "assistant":
                speaker = message.author or speaker or _find_history_owner(message)
                if (spoke := self._spoke(message, speaker)).items:
                    yield spoke
            elif message.role == "tool":
                yield from self._outputs(message)
            else:
                self._leave(f"a message of role {message.role!r}")
        self._report.left_out += [f"{what} ({number} times)" if number > 1 else what for what, number in self._left.items()]

    def _spoke(self, message: StoredMessage, speaker: str) -> AgentReply:
        items: list[ReplyItem] = []
        handoffs: dict[int, str] = {}
        waiting = [content for content in message.contents if content.get("type") == "function_approval_request"]
        asked = [check_dict(content.get("function_call"), message.where).get("call_id") for content in waiting]
        asks: set[int] = set()
        for content in message.contents:
            match content.get("type"):
                case "text":
                    if text := check_text(content.get("text") or "", message.where):
                        items.append(OutputText(text))
                case "function_call":
                    call = Call(
                        check_text(content.get("name"), f"the name in {message.where}", empty=False),
                        text_or_json(content.get("arguments") or "{}", message.where),
                        check_text(content.get("call_id") or "", message.where),
                    )
                    if _is_handoff(content):
                        handoffs[len(items)] = call.tool[len(HANDOFF) :]
                    if content.get("call_id") in asked:
                        asks.add(len(items))
                    items.append(call)
                case "function_approval_request" | "usage":
                    pass  # the call itself stands there too
                case kind:
                    self._leave(_kind(kind))
        return AgentReply(speaker, tuple(items), handoffs, frozenset(asks))

    def _outputs(self, message: StoredMessage) -> Iterator[ToolOutput]:
        for content in message.contents:
            if content.get("type") != "function_result":
                self._leave(_kind(content.get("type")))
                continue
            failed = bool(content.get("exception"))
            given = content.get("result") if content.get("result") is not None else content.get("exception") or ""
            yield ToolOutput(
                check_text(content.get("call_id") or "", message.where), text_or_json(_unwrapped(given), message.where), failed
            )

    def _content(self, message: StoredMessage) -> Content:
        gathered = MessageParts([], self.contents)
        for content in message.contents:
            match content.get("type"):
                case "text":
                    gathered.text(check_text(content.get("text") or "", message.where))
                case "data" | "uri" if content.get("uri"):
                    uri, media_type = (check_text(content.get(name) or "", message.where) for name in ("uri", "media_type"))
                    gathered.attached(uri, media_type, "", message.where)
                case "function_approval_response":
                    pass  # what came of it stands behind the call
                case kind:
                    self._leave(_kind(kind))
        return gathered.content

    def _leave(self, what: str) -> None:
        self._left[what] = self._left.get(what, 0) + 1


def _kind(kind: object) -> str:
    return "reasoning, which belongs to the provider that made it" if kind == "text_reasoning" else f"content of type {str(kind)[:40]!r}"


def _find_history_owner(message: StoredMessage) -> str:
    """Return the agent in whose history the message stands, for messages without an author."""
    return message.where.partition(".")[0]
