from services.config.redacted_repr import RedactedRepr


class Login(RedactedRepr, frozen=True):
    unshown = ("password",)

    name: str
    password: str = ""


def test_what_is_not_to_be_seen_is_not_shown_and_is_there() -> None:
    login = Login("ann", "hunter2")
    assert repr(login) == "Login(name='ann')"
    assert f"{[login]}" == "[Login(name='ann')]"
    assert login.password == "hunter2"
    assert login != Login("ann")
