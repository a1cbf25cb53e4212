"""Signal's check for `hermes doctor`."""

from gateway_service.platforms.signal.config import SignalConfig
from services.runtime.checks import Check, Verdict

CHECK_TIMEOUT_S = 5.0


async def check_signal(config: SignalConfig) -> Check:
    """Ask signal-cli which accounts it runs."""
    import httpx

    call = {"jsonrpc": "2.0", "id": "1", "method": "listAccounts"}
    try:
        async with httpx.AsyncClient(timeout=CHECK_TIMEOUT_S) as client:
            answer = await client.post(f"{config.http_url}/api/v1/rpc", json=call)
            said = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        text = f"signal-cli does not answer ({type(error).__name__}); check SIGNAL_HTTP_URL"
        return Check("signal", Verdict.FAILED, text)
    # A daemon of one account does not know this call.
    numbers = [str(each.get("number")) for each in said.get("result", ())]
    if numbers and config.account not in numbers:
        text = f"signal-cli runs {', '.join(numbers)}; check SIGNAL_ACCOUNT"
        return Check("signal", Verdict.FAILED, text)
    return Check("signal", Verdict.OK, config.account)
