import pytest

from ivqa.text.failed_answers import failure


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "Failed to obtain answer via API. ",
        "Failed to obtain answer: <class 'RuntimeError'> CUDA out of memory",
        "Failed to obtain answer.",
        "Fail to obtain answer via API.",
        "Failed to obtain answer BlueLM API. ",
        "Chat Mode: Failed with all possible conversation turns.",
        "Image Decode Error",
        "[LMMS_EVAL_REQUEST_FAILED after 5 retries] Error code: 400 - {...}",
        "[LMMS_EVAL_REQUEST_FAILED] timeout",
        "[LMMS_EVAL_BUDGET_EXCEEDED]",
        "Error code: 429 - {'error': {'message': 'Rate limit reached'}}",
        "openai.RateLimitError: Error code: 429 - {'error': {}}",
        "Error: Error code: 500",
        "Error: Bad Response Statuse Code. ",
        "Error: Failed to parse the response. Expecting value",
        "Traceback (most recent call last):\n  File 'x.py', line 1",
        "Request timed out.",
        "Connection error.",
        "APITimeoutError: Request timed out.",
        "APIConnectionError('Connection error.')",
        "HTTPSConnectionPool(host='api', port=443): Read timed out. (read timeout=60)",
        "('Connection aborted.', RemoteDisconnected('Remote end closed connection'))",
        "429 Client Error: Too Many Requests for url: https://api",
        "502 Bad Gateway",
        "<html>\r\n<head><title>503 Service Temporarily Unavailable</title></head>",
        '{"error": {"message": "quota"}}',
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "torch.cuda.OutOfMemoryError: CUDA out of memory.",
        "NaN",
        "nan",
        "null",
        "<NA>",
    ],
)
def test_what_failed_requests_leave_is_no_answer(text):
    assert failure(text)


@pytest.mark.parametrize(
    "text",
    [
        "red",
        "no",
        "None",
        "none",
        "NA",
        "N/A",
        "0",
        "error",
        "Error",
        "timeout",
        "request timed out",
        "connection error",
        "404 not found",
        "Sorry, I'm closed",
        "I'm sorry, I cannot help with that.",
        "The screen says: Error code: 429",
        "failed",
        "nan bread",
        "429",
        "=5",
        "html",
    ],
)
def test_answers_are_answers(text):
    assert failure(text) is None
