"""Rules, names, and what Kafka's classes make of them: tests/oracle asks these for the same."""

REALM = "EXAMPLE.COM"
ALICE, SERVICE, STRANGER = "alice@EXAMPLE.COM", "kafka/b1.example.com@EXAMPLE.COM", "Bob@OTHER.ORG"
NAMES = (ALICE, SERVICE, STRANGER, "plain", "a/b/c@EXAMPLE.COM", "two@at@EXAMPLE.COM", "@EXAMPLE.COM", "é/Ü@EXAMPLE.COM")

SHORT: dict[str, tuple[str | None, ...]] = {
    "DEFAULT": ("alice", "kafka", None, "plain", None, None, "", "é"),
    "RULE:[1:$1]": ("alice", None, "Bob", "plain", None, None, "", None),
    "RULE:[1:$1],RULE:[2:$2.$1]": ("alice", "b1.example.com.kafka", "Bob", "plain", None, None, "", "Ü.é"),
    "RULE:[1:$1]/L,RULE:[2:$1]/U": ("alice", "KAFKA", "bob", "plain", None, None, "", "É"),
    "RULE:[1:$1]L": ("alice", None, "bob", "plain", None, None, "", None),
    "RULE:[1:$1@$0](.*@OTHER.ORG)s/@.*//,DEFAULT": ("alice", "kafka", "Bob", "plain", None, None, "", "é"),
    "RULE:[1:$1@$0]": (None, None, None, "plain", None, None, None, None),
    "RULE:[1:$1@$0]s/(\\w+)@(\\w+).*/$2.$1/": ("EXAMPLE.alice", None, "OTHER.Bob", "plain", None, None, None, None),
    "RULE:[1:$1]s/[a-m]/-/": ("-lice", None, "Bo-", "plain", None, None, "", None),
    "RULE:[1:$1]s/[a-m]/-/g/U": ("-----", None, "BO-", "plain", None, None, "", None),
    "RULE:[1:$1]s/x*/<$0>/g": (
        "<>a<>l<>i<>c<>e<>",
        None,
        "<>B<>o<>b<>",
        "plain",
        None,
        None,
        "<>",
        None,
    ),
    "RULE:[2:$2]s/^b(?<number>\\d)\\..*/broker-${number}/": (None, "broker-1", None, "plain", None, None, None, "Ü"),
    "RULE:[1:$1]s/(l)(i)/$21\\$$1/": ("ai1$lce", None, "Bob", "plain", None, None, "", None),
    "RULE:[2:$1](kafka)s/kafka/broker/,RULE:[1:$1](alice)": ("alice", "broker", None, "plain", None, None, None, None),
    "RULE:[2:$1]s/\\w/x/": (None, "xafka", None, "plain", None, None, None, "é"),
    "RULE:[2:fixed]": (None, "fixed", None, "plain", None, None, None, "fixed"),
    "RULE:[3:$3],RULE:[1:]": ("", None, "", "plain", None, None, "", None),
    "RULE:[1:$1](bob),RULE:[1:$1](al\\w+)": ("alice", None, None, "plain", None, None, None, None),
}
"""By list of rules: the short name of each of NAMES, None where there is none."""

BAD = (
    "RULE",
    "DEFAULT/L",
    "DEFAULTS",
    "default",
    "RULE:[]",
    "RULE:[:$1]",
    "RULE:[1]",
    "RULE:[1:$1](a",
    "RULE:[1:$1](a)b",
    "RULE:[1:$1]s/a",
    "RULE:[1:$1]s/a/b",
    "RULE:[1:$1]s/a/b/x",
    "RULE:[1:$1]/X",
    "RULE:[1:$1]/LU",
    "RULE:[1:$1]([)",
    "RULE:[1:$1]s/(/b/",
    "RULE:[1:$1] ",
    "RULE:[1:$1];DEFAULT",
    "",
)
"""What is no rule."""

LATE = ("RULE:[1:$2]", "RULE:[1:$]", "RULE:[1:$1]s/(a)/$2/", "RULE:[1:$1]s/a/$x/", "RULE:[1:$1]s/a/\\/", "RULE:[1:$1]s/a/${n}/")
"""Rules that Kafka takes, and that let nobody in whom they fit."""
