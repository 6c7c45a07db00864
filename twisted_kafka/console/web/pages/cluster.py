"""The brokers, and partitions that are not well."""

from twisted_kafka.console.queries.cluster import cluster
from twisted_kafka.console.queries.settings import settings
from twisted_kafka.console.web.call import Call, Page


def show(call: Call) -> Page:
    """Show the cluster."""
    return Page("cluster.html", {"title": "Cluster", "cluster": cluster(call.session)}, is_live=True)


def show_broker(call: Call) -> Page:
    """Show the settings of one broker."""
    broker = call.number("id", call.context.settings.broker_id, 0, 2**31 - 1)
    found = settings(call.session, "broker", str(broker))
    search = call.text("search").casefold()
    all_settings = call.text("settings") == "all" or bool(search)
    rows = [each for each in found if (all_settings or not each.is_default) and search in each.key.casefold()]
    values = {"title": f"Broker {broker}", "broker": broker, "settings": rows, "hidden": len(found) - len(rows)}
    return Page("broker.html", values)
