"""Extensions: what tenants register, and the informers that serve it."""
