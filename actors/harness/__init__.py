"""The actor that owns run state, budgets, retries and stopping."""
