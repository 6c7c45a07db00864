"""One broker: its parts in the order of start and stop, the settings that change, its identity; `Broker` embeds it in a program."""
