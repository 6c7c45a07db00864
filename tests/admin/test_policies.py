import pytest

from twisted_kafka.admin.policies import Policies
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError


@pytest.mark.parametrize("name", ["nowhere.AtAll", "tests.admin.test_policies.NoSuchClass", "builtins.dict"])
def test_a_policy_that_cannot_be_had_is_one_clear_line(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^Invalid value '.*' for create\.topic\.policy\.class\.name: must be a class .*\)$"):
        Policies(KafkaConfig.embedded({"create.topic.policy.class.name": name}))
