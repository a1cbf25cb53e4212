"""Matrix's check for `hermes doctor`."""

from gateway_service.platforms.matrix.config import MatrixConfig
from services.runtime.checks import Check, Verdict

CHECK_TIMEOUT_S = 5.0


async def check_matrix(config: MatrixConfig) -> Check:
    """Ask the homeserver whose token it is."""
    import httpx

    headers = {"Authorization": f"Bearer {config.token.get_secret_value()}"}
    try:
        async with httpx.AsyncClient(timeout=CHECK_TIMEOUT_S, headers=headers) as client:
            answer = await client.get(f"{config.url}/_matrix/client/v3/account/whoami")
    except httpx.HTTPError as error:
        text = f"{config.url} cannot be reached ({type(error).__name__}); check MATRIX_HOMESERVER"
        return Check("matrix", Verdict.FAILED, text)
    if answer.status_code == 401:
        text = "the homeserver refuses the token; check MATRIX_ACCESS_TOKEN"
        return Check("matrix", Verdict.FAILED, text)
    if not answer.is_success:
        text = f"{config.url} answered {answer.status_code}; check MATRIX_HOMESERVER"
        return Check("matrix", Verdict.FAILED, text)
    owner = answer.json()["user_id"]
    if owner != config.user_id:
        text = f"the token belongs to {owner}; set MATRIX_USER_ID to it"
        return Check("matrix", Verdict.FAILED, text)
    return Check("matrix", Verdict.OK, owner)
