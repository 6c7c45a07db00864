from twisted_kafka.config.command_line import settings_in


def test_names_are_those_of_kafkas_container_image() -> None:
    names = {
        "KAFKA_ADVERTISED_LISTENERS": "advertised.listeners",
        "KAFKA_LISTENER_NAME_INTERNAL_SSL_KEYSTORE_LOCATION": "listener.name.internal.ssl.keystore.location",
        "KAFKA_LISTENER_NAME_MY__LISTENER_SSL_KEY_PASSWORD": "listener.name.my_listener.ssl.key.password",
        "KAFKA_LISTENER_NAME_A_SCRAM___SHA___256_SASL_JAAS_CONFIG": "listener.name.a.scram-sha-256.sasl.jaas.config",
    }
    assert settings_in(dict.fromkeys(names, "x")) == dict.fromkeys(names.values(), "x")


def test_other_variables_are_left_out() -> None:
    others = (
        "KAFKA_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_VERSION",
        "PATH",
    )
    assert settings_in(dict.fromkeys(others, "x") | {"KAFKA_BROKER_RACK": ""}) == {}
