"""The switches of the Responses rules: what is assumed where the provider's behaviour is not certain.

Every switch has the default that refuses least, unless a recording says otherwise; the comment says which.
"""

from __future__ import annotations

from msgspec import Struct


class ResponsesRuleSwitches(Struct, frozen=True):
    """The switches of the Responses rules."""

    # The account retains no data (S5, S6, I2). Then every request is treated as if it had `store: false`.
    zero_data_retention: bool = False

    # The longest name of a tool (T11). 64 was seen in 2025, the specification of 2026-08 says 128. 0: no limit.
    tool_name_limit: int = 128

    # The most tools in one request (T16). Seen on Chat Completions, inferred here. 0: no limit.
    tools_limit: int = 128

    # The status of "Item with id ... not found" (I1-I3). 404 on api.openai.com; one report has 400 through Azure.
    item_not_found_status: int = 404

    # True: a `code` that OpenAI leaves null is "invalid_request_error", as in some bodies from Azure.
    code_never_null: bool = False

    # True: two calls may not share a `call_id` (T5a), two outputs not answer one call (T5b), two tools not share a name (T17).
    # None of these was ever seen refused.
    unique_call_ids: bool = False
    single_outputs: bool = False
    unique_tool_names: bool = False

    # True: R1, R3 and R8 hold for encrypted reasoning that the server never stored. Off: recordings have three such requests that were
    # accepted, and the one that was refused had stored its reasoning. R2 needs no switch: of an item that was never stored the server
    # cannot know that reasoning came before it.
    reasoning_pairing_unstored: bool = False

    # True: encrypted content must come from the model it is sent to (R13), and must come with its item's id (R15). Documents and
    # reports disagree; off: content of another model is silently dropped, an id is not required.
    same_model_blobs: bool = False
    blobs_need_ids: bool = False

    # True: `reasoning.generate_summary`, the earlier name of `summary`, is unknown (O19). A live probe of 2026-10 was refused; recordings
    # of 2025 were accepted, and the official package still has it.
    refuses_generate_summary: bool = False

    # True: a response's reasoning has its encrypted content without a request for it, as since the middle of 2026. Off: as before, only
    # where `include` names it. No rule depends on it.
    encrypted_by_default: bool = True


OPENAI = ResponsesRuleSwitches()
