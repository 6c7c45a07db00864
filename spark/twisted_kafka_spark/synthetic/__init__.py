"""A made-up day of a broker's access log, with incidents at known times: what the findings are tried on."""
