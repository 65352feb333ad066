"""One small call that shows what a model server can do. ``duly doctor`` tells the outcome."""

from __future__ import annotations

from duly.protocol.plan.model_call import ModelCall, ModelMessage, OutputMode
from duly.protocol.wire.errors import ModelError
from duly.protocol.wire.ids import digest_bytes
from duly.protocol.wire.limits import MODEL_CHECK_SECONDS_MAX, MODEL_CHECK_TOKENS_MAX

from .asker import Asker
from .attempt import Attempt
from .settings import Setting

_TEXT = "Greet me."
# Nothing in the question leads to this word: an answer that has it was made under the schema, or with it in sight.
_WORD = "heron"
_SCHEMA = {
    "type": "object",
    "properties": {"bird": {"type": "string", "enum": [_WORD]}},
    "required": ["bird"],
    "additionalProperties": False,
}


async def check(asker: Asker, setting: Setting) -> OutputMode:
    """The firmest way in which the server gives JSON that is valid. Raises ``ModelError`` where it gives none.

    A server that takes the schema and pays no heed to it is asked again with the schema in the prompt.
    """
    problem: ModelError | None = None
    for _ in range(3):
        attempt = Attempt(_call(), answer_tokens=MODEL_CHECK_TOKENS_MAX)
        try:
            await asker.ask(setting, attempt)
            return attempt.mode
        except ModelError as error:
            if error.code != "model.bad_answer" or attempt.mode == "text":
                raise
            problem = error
            asker.abilities(setting).lack(attempt.mode)
    assert problem is not None
    raise problem


def _call() -> ModelCall:
    return ModelCall(
        purpose="plan",
        prompt="check.v1",
        prompt_digest=digest_bytes("model.prompt", _TEXT.encode()),
        messages=[ModelMessage(role="user", text=_TEXT)],
        schema_name="bird",
        json_schema=_SCHEMA,
        tokens_max=MODEL_CHECK_TOKENS_MAX * 2,
        seconds_max=MODEL_CHECK_SECONDS_MAX,
    )
