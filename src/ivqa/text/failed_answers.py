"""Error messages of failed requests, which logs and endpoints hold in place of answers."""

import re

# What clients write, at the start of the text and in their capitals. A model that reads "error" or
# "request timed out" from a photograph of a screen answers in other words or without the full stop.
_FAILURES = re.compile(
    r"""
    \[LMMS_EVAL_[A-Z_]+                     # lmms-eval: REQUEST_FAILED, BUDGET_EXCEEDED
    | Fail(ed)?[ ]to[ ]obtain[ ]answer      # VLMEvalKit, with or without "via API"
    | Chat[ ]Mode:[ ]Failed[ ]with[ ]all    # VLMEvalKit
    | Image[ ]Decode[ ]Error\b              # VLMEvalKit, OmniLMM
    | Traceback[ ]\(most[ ]recent[ ]call[ ]last\)
    | ([\w.]+:[ ])?(                        # an exception as text, or with its class before it
        Error([ ]code:|![ ]code)[ ]\d{3}\b # openai, any HTTP status; VLMEvalKit
      | (Request[ ]timed[ ]out|Connection[ ]error)\.(\s|$)  # openai
      | Bad[ ]Response[ ]Status             # VLMEvalKit, Qwen
      | Failed[ ]to[ ]parse[ ]the[ ]response
      | \d{3}[ ](Client|Server)[ ]Error:[ ] # requests
      | HTTPS?ConnectionPool\(
      | \(?'?(Connection[ ]aborted|Read[ ]timed[ ]out|Max[ ]retries[ ]exceeded)\b
      | CUDA[ ](out[ ]of[ ]memory|error:)
      )
    | ((\w+\.)+[A-Z]\w*(Error|Exception|Timeout|Exhausted|Unavailable)  # with its module
        |\w*(API\w*Error|RateLimitError|TimeoutError|ConnectionError|OutOfMemoryError|HTTPError
          |AuthenticationError|BadRequestError|InternalServerError|JSONDecodeError|ReadTimeout
          |ServiceUnavailableError))(:[ ]|\()
    | (HTTP[ ]Error[ ])?(429|50[0234])(:?[ ](Too[ ]Many[ ]Requests|Internal[ ]Server[ ]Error
        |Bad[ ]Gateway|Service[ ]Unavailable|Gateway[ ]Time-?[Oo]ut)\b
      |[ ](RESOURCE_EXHAUSTED|UNAVAILABLE|INTERNAL|DEADLINE_EXCEEDED)\b)  # Gemini
    | Rate[ ]limit[ ]reached[ ]for[ ]|You[ ]exceeded[ ]your[ ]current[ ]quota\b  # OpenAI
    | The[ ]server[ ]had[ ]an[ ]error[ ]while[ ]processing[ ]your[ ]request\b
    | \{\s*["']error["']\s*:                # the body of an error
    | <(!DOCTYPE[ ])?html\b                 # an error page of a proxy
    | (NaN|nan|null|<NA>)$                  # an empty cell of a table; "None" and "NA" are answers
    | \#(N/A|(NAME\?)|(REF|VALUE|DIV/0|NUM|NULL)!)$  # a formula of a spreadsheet
    """,
    re.VERBOSE,
)


def failure(text: str) -> str | None:
    """Finds the error message of a failed request; None if the text is an answer of a model.

    The message has at most 80 characters. Refusals in the words of the model are answers: "Sorry,
    I'm closed" can be the text of a sign.

    Example:
        >>> failure("Error code: 429 - {'error': ...}"), failure(" "), failure("error")
        ("Error code: 429 - {'error': ...}", 'empty', None)
    """
    said = " ".join(text.split())
    if not said:
        return "empty"
    return said[:80] if _FAILURES.match(said) else None
