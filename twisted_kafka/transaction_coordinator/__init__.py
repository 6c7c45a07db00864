"""The transaction coordinator: producer ids, transactions and their markers."""
