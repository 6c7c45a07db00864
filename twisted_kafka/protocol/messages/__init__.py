"""The messages of the protocol, one module per area: import the module you need, or use ``protocol.api.find_message``.

``coordinators`` has the messages of groups and transactions, ``administration`` those of administrators. ``share``, ``streams`` and
``kraft`` have the messages that no handler needs yet; a recording proxy reads them.
"""
