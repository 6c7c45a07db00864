"""Producer ids, transactional offset commits and transaction markers."""
