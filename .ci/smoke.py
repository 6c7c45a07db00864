"""Smoke test of the distributions: what `pip install` gives a user works, outside the checkout.

    python .ci/smoke.py [--python /path/to/python3] [--only wheel|sdist]

Builds the sdists, and the wheels from them, of the broker, the report and the pytest plug-in. Installs each into a fresh virtual
environment, with kafka-python as the client. There it starts `twistd -n kafka` and `twisted-kafka serve`, produces and fetches a
record, stops the broker, and runs a test with the plug-in's fixtures. Needs the package `build` and a package index.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {
    "twisted_kafka": ROOT,
    "twisted_kafka_spark": ROOT / "spark",
    "pytest_twisted_kafka": ROOT / "pytest_plugin",
}
CONSTRAINTS = ROOT / "etc" / "pypy-constraints.txt"
"""Does nothing on CPython."""
BUILD_TIMEOUT_S = 600
STEP_TIMEOUT_S = 60

CLIENT = """
import sys
from kafka import KafkaConsumer, KafkaProducer

address, topic = sys.argv[1:]
producer = KafkaProducer(bootstrap_servers=address, acks="all", compression_type="gzip")
sent = producer.send(topic, b"value", key=b"key").get(timeout=30)
producer.close()
consumer = KafkaConsumer(topic, bootstrap_servers=address, auto_offset_reset="earliest", consumer_timeout_ms=30_000)
record = next(consumer)
assert (record.key, record.value, record.offset) == (b"key", b"value", sent.offset), record
consumer.close()
"""

TEST = """
import sys
from kafka import KafkaProducer

def test_a_record(kafka, kafka_topic):
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    producer.send(kafka_topic, b"value").get(timeout=30)
    producer.close()
    assert [record.value for record in kafka.records(kafka_topic)] == [b"value"]
    loaders = {module.__spec__.loader for name, module in sys.modules.items() if name.startswith("twisted_kafka.")}
    assert not [each for each in loaders if type(each).__module__.startswith("_pytest")], "pytest rewrites the broker"
    assert not [each for each in sys.meta_path if "twisted_kafka" in type(each).__module__], "an import hook"
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Install the built wheel and sdist in bare environments and try them.")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the environments; default: this one")
    parser.add_argument("--only", choices=["wheel", "sdist"], help="try this one alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="twisted-kafka-smoke-") as name:
        folder = Path(name)
        for name, source in SOURCES.items():
            run([sys.executable, "-m", "build", "--outdir", str(folder / name), str(source)], folder, BUILD_TIMEOUT_S)
        kinds = {kind: built(folder, suffix) for kind, suffix in (("wheel", "*.whl"), ("sdist", "*.tar.gz"))}
        version = check_metadata(kinds["wheel"]["twisted_kafka"])
        assert [each.name for each in kinds["sdist"].values()] == [f"{name}-{version}.tar.gz" for name in SOURCES], kinds
        for kind, files in kinds.items():
            if options.only in (None, kind):
                try_out(files, version, options.python, folder / kind)
                print(f"{kind}: {', '.join(each.name for each in files.values())} work", flush=True)
    return 0


def built(folder: Path, pattern: str) -> dict[str, Path]:
    """Return the files of one kind by the names of their distributions."""
    return {name: next((folder / name).glob(pattern)) for name in SOURCES}


def check_metadata(wheel: Path) -> str:
    """Return the wheel's version; refuse a README with links that lead nowhere on a package index."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    targets = re.findall(r"\]\(([^)]+)\)", metadata.get_payload())
    assert all(target.startswith(("https://", "#")) for target in targets), targets
    return metadata["Version"]


def try_out(files: dict[str, Path], version: str, python: str, folder: Path) -> None:
    """Install the broker into a new environment in the folder, and use it as its README says; then the other two."""
    folder.mkdir()
    run([python, "-m", "venv", str(folder / "venv")], folder, BUILD_TIMEOUT_S)
    commands = folder / "venv" / "bin"
    pip = [str(commands / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    run(
        [*pip, "install", "--constraint", str(CONSTRAINTS), str(files["twisted_kafka"]), "kafka-python>=2.2"],
        folder,
        BUILD_TIMEOUT_S,
    )
    run([*pip, "check"], folder)
    twistd, twisted_kafka = [str(commands / "twistd"), "-n", "--pidfile=", "kafka"], str(commands / "twisted-kafka")
    for command in ([twisted_kafka], [twisted_kafka, "serve"], twistd):
        printed = run([*command, "--version"], folder)
        assert printed == f"twisted_kafka {version}\n", f"{command}: {printed}"
    for topic, command in {"twistd": twistd, "serve": [twisted_kafka, "serve"]}.items():
        use(command, topic, str(commands / "python"), folder)
    run([twisted_kafka, "verify", "kafka-data"], folder)
    try_report(files["twisted_kafka_spark"], pip, twisted_kafka, folder)
    try_plugin(files, pip, folder)


def try_report(report: Path, pip: list[str], twisted_kafka: str, folder: Path) -> None:
    """Install the report beside the broker, without Spark, which is large: the command hands over to it. It is not for PyPy."""
    if run([pip[0], "-c", "import sys; print(sys.implementation.name)"], folder) != "cpython\n":
        return
    run([*pip, "install", "--no-deps", str(report)], folder, BUILD_TIMEOUT_S)
    run([*pip, "install", "numpy", "pyarrow"], folder, BUILD_TIMEOUT_S)
    printed = run([twisted_kafka, "report", "--help"], folder)
    assert printed.startswith("usage: twisted-kafka report "), printed


def try_plugin(files: dict[str, Path], pip: list[str], folder: Path) -> None:
    """Install the extra for tests with the pytest plug-in, and run a test that imports nothing of them."""
    extra = [f"{files['twisted_kafka']}[testing]", str(files["pytest_twisted_kafka"])]
    run([*pip, "install", "--constraint", str(CONSTRAINTS), *extra], folder, BUILD_TIMEOUT_S)
    tests = folder / "tests"
    tests.mkdir()
    (tests / "test_a_record.py").write_text(TEST)
    printed = run([pip[0], "-m", "pytest", "-q", "--rootdir", str(tests), str(tests)], folder)
    assert "1 passed" in printed, printed


def use(command: list[str], topic: str, python: str, folder: Path) -> None:
    """Start a broker, run the client against it, and stop it."""
    log = folder / "broker.log"
    with log.open("w") as output:
        broker = subprocess.Popen([*command, "--listeners", "PLAINTEXT://127.0.0.1:0"], cwd=folder, stdout=output, stderr=output)
    try:
        run([python, "-c", CLIENT, address(broker, log), topic], folder)
        broker.terminate()
        status = broker.wait(STEP_TIMEOUT_S)
        assert status == 0, f"status {status}\n{log.read_text()}"
    except BaseException:
        print(log.read_text(), file=sys.stderr)
        raise
    finally:
        broker.kill()
        broker.wait()


def address(broker: "subprocess.Popen[bytes]", log: Path) -> str:
    """Return where the broker listens, once it says so."""
    for _ in range(STEP_TIMEOUT_S * 10):
        if found := re.search(r"listens on PLAINTEXT://(127\.0\.0\.1:\d+)", log.read_text()):
            return found[1]
        try:
            raise AssertionError(f"status {broker.wait(0.1)}")
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("the broker does not start")


def run(command: list[str], folder: Path, timeout_s: float = STEP_TIMEOUT_S) -> str:
    """Run a program in the folder and return what it prints; one that fails ends this one with its output."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
