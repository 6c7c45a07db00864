"""What a hostile gigabyte does to a broker's memory: ``python -m tests.hostile.measure [--mib N] [--sasl] [FORM ...]``."""

import argparse
import tempfile
import time
from pathlib import Path

from tests.hostile.broker_under_attack import BrokerUnderAttack
from tests.hostile.forms import BEFORE_LOGIN, FORMS, MIB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--sasl", action="store_true", help="a SASL listener, nobody logs in")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("forms", nargs="*")
    options = parser.parse_args()
    for form in BEFORE_LOGIN if options.sasl else FORMS:
        if options.forms and form.__name__ not in options.forms:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            broker = BrokerUnderAttack(Path(scratch) / "data", options.sasl)
            began = time.monotonic()
            try:
                poured, grown_bytes = broker.endure(form, options.seed, options.mib * MIB)
                took_s = time.monotonic() - began
                print(
                    f"{form.__name__:22} +{grown_bytes / MIB:7.0f} MiB  sent {poured.sent_bytes / MIB:6.0f} MiB "
                    f"on {poured.connections} connections, {poured.closed_by_peer} closed by the broker, {took_s:.1f} s, "
                    f"log {len(broker.log) / MIB:.1f} MiB, {broker.log.count('Traceback')} tracebacks",
                    flush=True,
                )
            finally:
                broker.served.kill()


if __name__ == "__main__":
    main()
