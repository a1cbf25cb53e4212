"""What an API server answers when it refuses."""

from aiohttp import web

from executor_service.backends.kubernetes.api import Json

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "AlreadyExists",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
}


class Refused(Exception):
    """The request is answered with a Status object."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    def response(self) -> web.Response:
        headers = {"Retry-After": "1"} if self.code == 429 else {}
        return web.json_response(status_of(self.code, str(self)), status=self.code, headers=headers)


def status_of(code: int, message: str) -> Json:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": REASONS.get(code, "Unknown"),
        "code": code,
    }
