"""When this broker logs in again, with a KDC that is asked by hand; and with a real one."""

import pytest
from twisted.logger import capturedLogs, formatEvent

from twisted_kafka.security.kerberos.client_login import ClientLogin, RenewalSettings
from twisted_kafka.security.kerberos.keytab_login import KerberosError
from twisted_kafka.timing.clock import ManualClock

LIFETIME_S = 1_000


class Credential:
    lifetime = LIFETIME_S


class FakeKdc:
    """Gives a credential, or does not."""

    def __init__(self, window_factor: float = 0.8, min_time_before_relogin_s: int = 60) -> None:
        self.clock = ManualClock()
        self.logins = 0
        self.is_down = False
        settings = RenewalSettings(window_factor, 0.05, min_time_before_relogin_s * 1000)
        self.login = ClientLogin(self._log_in, settings, self.clock, lambda: 0.5)

    def _log_in(self) -> Credential:
        self.logins += 1
        if self.is_down:
            raise KerberosError("Cannot contact any KDC")
        return Credential()

    def after(self, seconds: float) -> int:
        """Ask for the credential, after so long; return how often the KDC was asked until now."""
        self.clock.advance_ms(int(seconds * 1000))
        assert isinstance(self.login.credential(), Credential)
        return self.logins


def test_a_ticket_is_kept_until_most_of_its_time_is_over() -> None:
    kdc = FakeKdc()
    assert [kdc.after(seconds) for seconds in (0, 500, 324, 2, 823, 3)] == [1, 1, 1, 2, 2, 3]


def test_logins_are_apart_unless_the_ticket_has_expired() -> None:
    kdc = FakeKdc(window_factor=0.1, min_time_before_relogin_s=400)
    assert [kdc.after(seconds) for seconds in (0, 200, 199, 2)] == [1, 1, 1, 2]
    kdc = FakeKdc(window_factor=0.1, min_time_before_relogin_s=4_000)
    assert [kdc.after(seconds) for seconds in (0, 999, 2)] == [1, 1, 2]


def test_a_ticket_is_used_until_it_expires_if_the_kdc_is_down() -> None:
    kdc = FakeKdc()
    kdc.after(0)
    kdc.is_down = True
    with capturedLogs() as logged:
        assert [kdc.after(seconds) for seconds in (900, 59, 2)] == [2, 2, 3]
    assert "The Kerberos ticket that expires in 100 s cannot be renewed: Cannot contact any KDC" in map(formatEvent, logged)
    kdc.clock.advance_ms(40_000)
    with pytest.raises(KerberosError):
        kdc.login.credential()
    kdc.is_down = False
    assert kdc.after(0) == 5


def test_without_a_first_ticket_there_is_nothing_to_use() -> None:
    kdc = FakeKdc()
    kdc.is_down = True
    for _ in range(2):
        with pytest.raises(KerberosError):
            kdc.login.credential()
    assert kdc.logins == 2
